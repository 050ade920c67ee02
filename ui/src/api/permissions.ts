/** What a caller may do, as `GET /me` lists it: `jobs:cancel`, or with a scope `jobs:cancel@kind=report.*,lane=bulk`. */

export type Permission =
  | "jobs:read"
  | "jobs:read_all"
  | "jobs:submit"
  | "jobs:approve"
  | "jobs:cancel"
  | "jobs:retry"
  | "jobs:edit"
  | "jobs:delete"
  | "jobs:read_args"
  | "workers:view"
  | "workers:manage"
  | "schedules:view"
  | "schedules:manage"
  | "audit:read"
  | "tokens:manage"
  | "webhooks:manage";

/** What an order concerns. An absent field is unknown: then a permission with a scope for it counts as held. */
export interface Scope {
  kind?: string | null;
  lane?: string | null;
}

function fits(pattern: string, name: string | null | undefined): boolean {
  if (name === null || name === undefined) return true;
  return pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}

function covers(held: string, wanted: Permission, scope: Scope): boolean {
  const at = held.indexOf("@");
  if (at < 0) return held === wanted;
  if (held.slice(0, at) !== wanted) return false;
  return held
    .slice(at + 1)
    .split(",")
    .every((part) => {
      const [field, pattern = ""] = part.split("=", 2);
      if (field === "kind") return fits(pattern, scope.kind);
      if (field === "lane") return fits(pattern, scope.lane);
      return false;
    });
}

/** True when one of the held permissions allows it. Only decides what is shown: the API decides what happens. */
export function allows(held: readonly string[], wanted: Permission, scope: Scope = {}): boolean {
  return held.some((each) => covers(each, wanted, scope));
}

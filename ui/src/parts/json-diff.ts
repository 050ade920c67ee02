/** A place in two JSON values where they differ, or agree. */
export interface Difference {
  /** Names and indexes from the top, such as `order.lines.0`. */
  path: string;
  before: unknown;
  after: unknown;
  change: "same" | "changed" | "added" | "removed";
}

const isBranch = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;

/** Every leaf of two values side by side, in the order of the second and then what only the first has. */
export function differencesOf(before: unknown, after: unknown, path = ""): Difference[] {
  const sameShape = isBranch(before) && isBranch(after) && Array.isArray(before) === Array.isArray(after);
  if (sameShape) {
    const names = [...Object.keys(after), ...Object.keys(before).filter((name) => !(name in after))];
    return names.flatMap((name) => {
      const below = path ? `${path}.${name}` : name;
      if (!(name in before)) return [{ path: below, before: undefined, after: after[name], change: "added" as const }];
      if (!(name in after))
        return [{ path: below, before: before[name], after: undefined, change: "removed" as const }];
      return differencesOf(before[name], after[name], below);
    });
  }
  const same = JSON.stringify(before) === JSON.stringify(after);
  return [{ path, before, after, change: same ? "same" : "changed" }];
}

import { ApiProblem } from "./problem";

/** What the API found wrong, by field: the last part of each pointer that names one of `fields`. */
export function fieldErrors<Field extends string>(
  error: Error | null,
  fields: readonly Field[],
): Partial<Record<Field, string>> {
  if (!(error instanceof ApiProblem)) return {};
  const found: Partial<Record<Field, string>> = {};
  for (const { pointer, detail } of error.problem?.errors ?? []) {
    const field = pointer.split("/").findLast((part): part is Field => fields.some((each) => each === part));
    if (field) found[field] ??= detail;
  }
  return found;
}

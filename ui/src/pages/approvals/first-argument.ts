import type { Job } from "../../api/client";

/** The first argument in one line, such as `order: 4711`, so that two jobs of a kind can be told apart; null: it has none. */
export function firstArgument({ args }: Pick<Job, "args">): string | null {
  const [first] = Object.entries(args);
  if (!first) return null;
  const [name, value] = first;
  return `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`;
}

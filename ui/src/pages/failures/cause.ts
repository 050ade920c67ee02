import type { FailureGroup } from "../../api/failures";
import { words } from "../../words";

/** A cause in one line: class and message, else the reason. */
export function causeOf(group: Pick<FailureGroup, "other" | "type" | "message" | "reason">): string {
  if (group.other) return words.failures.other;
  return [group.type, group.message].filter(Boolean).join(": ") || (group.reason ?? words.none);
}

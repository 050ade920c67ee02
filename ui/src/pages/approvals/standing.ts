import type { Schema } from "../../api/client";

/** Where the caller stands: may decide, submitted it under four eyes, or has approved it already. */
export type Standing = "may-decide" | "own-job" | "already-approved";

/** Only decides what is shown; the API refuses what is not allowed. */
export function standingOf(
  approval: Pick<Schema["ApprovalAnswer"], "four_eyes" | "approvers">,
  submittedBy: string | null,
  subject: string | null,
): Standing {
  if (subject !== null && approval.approvers.includes(subject)) return "already-approved";
  return approval.four_eyes && subject !== null && submittedBy === subject ? "own-job" : "may-decide";
}

import type { Job } from "../../api/client";

/** Columns of the CSV. Objects are written as JSON. */
const FIELDS = [
  "id",
  "kind",
  "state",
  "priority",
  "attempt",
  "max_attempts",
  "lane",
  "worker",
  "tenant",
  "submitted_by",
  "created_at",
  "run_after",
  "claimed_at",
  "finished_at",
  "tags",
  "refs",
  "args",
  "result",
  "errors",
] as const satisfies readonly (keyof Job)[];

function cellText(value: unknown): string {
  if (value === null || value === undefined) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  // A spreadsheet runs a cell that begins like a formula.
  const safe = /^[=+\-@\t\r]/.test(text) && !/^-?\d+(\.\d+)?$/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function csvOf(jobs: readonly Job[]): string {
  const lines = [FIELDS.join(","), ...jobs.map((job) => FIELDS.map((field) => cellText(job[field])).join(","))];
  return lines.join("\r\n") + "\r\n";
}

export function jsonOf(jobs: readonly Job[]): string {
  return JSON.stringify(jobs, null, 2) + "\n";
}

/** Gives the browser a file to save. */
export function saveFile(name: string, type: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  // The browser has begun to read it; freeing it at once makes some of them save nothing.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

import type { Explanation } from "../../api/jobs";
import { clockText } from "../../words/format";

const UTC = /(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC/g;
/** What the command line adds for a decision that has buttons on this page. */
const COMMAND = / Decide with: .*$/;

/** A reason as this page shows it: times in the reader's own zone, and no command beside the buttons that do the same. */
export function whyText({ code, text }: Explanation["reasons"][number], now: number): string {
  const told = code === "approval" || code === "held" ? text.replace(COMMAND, "") : text;
  return told.replace(UTC, (_, day: string, time: string) => clockText(`${day}T${time}Z`, now));
}

import type { Schedule } from "../../api/schedules";
import { words } from "../../words";
import { cronWords } from "../../words/cron-words";
import { durationText } from "../../words/format";

/** When a schedule fires, in words. */
export function ruleText({ cron, every }: Pick<Schedule, "cron" | "every">): string {
  if (cron !== null) return cronWords(cron);
  return every === null ? words.none : words.schedules.every(durationText(every));
}

/** A cron rule as a sentence, in the words of words/en/schedules.ts. Rules that it cannot say well are shown as they are. */
import { words } from ".";

const SHORTHANDS: Record<string, string> = {
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
  "@monthly": "0 0 1 * *",
  "@weekly": "0 0 * * 0",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@hourly": "0 * * * *",
};
const DAY_NAMES = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const MONTH_NAMES = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];

const text = words.schedules.cron;

/** A number of a field, also as a name: MON is 1, JAN is 1. Null: neither. */
function numberOf(part: string, names: readonly string[], first: number): number | null {
  if (/^\d+$/.test(part)) return Number(part);
  const at = names.indexOf(part.toUpperCase());
  return at < 0 ? null : at + first;
}

/** "1,3-5" as a list of words; null for what has no words. */
function listed(field: string, word: (value: number) => string | undefined, names: readonly string[], first: number) {
  const parts = field.split(",").map((part) => {
    const [from = "", to] = part.split("-", 2);
    const [start, end] = [numberOf(from, names, first), to === undefined ? null : numberOf(to, names, first)];
    if (start === null || (to !== undefined && end === null)) return null;
    const [begin, finish] = [word(start), end === null ? undefined : word(end)];
    if (begin === undefined || (end !== null && finish === undefined)) return null;
    return finish === undefined ? begin : text.fromTo(begin, finish);
  });
  return parts.every((part) => part !== null) ? text.and(parts) : null;
}

function timeWords(minute: string, hour: string): string | null {
  const every = /^\*\/(\d+)$/;
  const minuteStep = every.exec(minute)?.[1];
  const hourStep = every.exec(hour)?.[1];
  if (hour === "*") {
    if (minute === "*") return text.everyMinute;
    if (minuteStep) return text.everyMinutes(minuteStep);
    return /^\d+$/.test(minute) ? text.everyHour(minute.padStart(2, "0")) : null;
  }
  if (hourStep && /^\d+$/.test(minute)) return text.everyHours(hourStep, minute.padStart(2, "0"));
  if (!/^\d+$/.test(minute)) return null;
  const times = listed(hour, (value) => `${String(value).padStart(2, "0")}:${minute.padStart(2, "0")}`, [], 0);
  return hour.includes("-") || !times ? null : text.at(times);
}

function dayWords(day: string, month: string, weekday: string): string | null {
  const months = month === "*" ? "" : listed(month, (value) => text.months[value - 1], MONTH_NAMES, 1);
  if (months === null) return null;
  const inMonths = months && text.inMonths(months);
  if (day === "*" && weekday === "*") return inMonths || text.everyDay;
  if (day === "*") {
    if (/^(MON|1)-(FRI|5)$/i.test(weekday)) return `${text.workdays}${inMonths && ` ${inMonths}`}`;
    const days = listed(weekday, (value) => text.days[value % 7], DAY_NAMES, 0);
    return days && `${text.onDays(days)}${inMonths && ` ${inMonths}`}`;
  }
  if (weekday !== "*") return null;
  const dates = day === "L" ? text.lastDay : listed(day, (value) => text.ordinal(value), [], 1);
  return dates && `${text.onDates(dates)}${inMonths && ` ${inMonths}`}`;
}

export function cronWords(rule: string): string {
  const fields = (SHORTHANDS[rule.trim().toLowerCase()] ?? rule.trim()).split(/\s+/);
  const [minute, hour, day, month, weekday] = fields;
  if (fields.length !== 5 || !minute || !hour || !day || !month || !weekday) return rule;
  const time = timeWords(minute, hour);
  const when = dayWords(day, month, weekday);
  if (time === null || when === null) return rule;
  const repeats = hour === "*" || hour.startsWith("*/");
  return repeats && when === text.everyDay ? time : `${time} ${when}`;
}

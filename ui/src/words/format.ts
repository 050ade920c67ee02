import type { Count } from "../api/client";
import { words } from ".";

const whole = new Intl.NumberFormat();
const compact = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const exactInstant = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const toMinute = { hour: "2-digit", minute: "2-digit" } as const;
const timeOnly = new Intl.DateTimeFormat(undefined, toMinute);
const timeToSecond = new Intl.DateTimeFormat(undefined, { ...toMinute, second: "2-digit" });
const dayAndTime = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", ...toMinute });
const dayAndSecond = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "numeric",
  ...toMinute,
  second: "2-digit",
});

export function numberText(value: number): string {
  return whole.format(value);
}

/** 12,345 as 12.3K; numbers below 10,000 as they are. */
export function shortNumber(value: number): string {
  return Math.abs(value) < 10_000 ? whole.format(value) : compact.format(value);
}

/** A count as it is shown: "10,000+" when the server stopped counting. */
export function countText(count: Count, short = false): string {
  const value = short ? shortNumber(count.value) : numberText(count.value);
  return count.exact ? value : words.atLeast(value);
}

const UNITS = [
  ["d", 86_400],
  ["h", 3600],
  ["m", 60],
] as const;

/** Seconds as a person says them: 340 ms, 4.2 s, 3 m 20 s, 5 h 2 m, 3 d 4 h. */
export function durationText(seconds: number): string {
  const span = Math.abs(seconds);
  if (span === 0) return "0 s";
  if (span < 0.9995) return `${Math.max(1, Math.round(span * 1000))} ms`;
  if (span < 9.95) return `${Number.isInteger(span) ? span : span.toFixed(1)} s`;
  if (span < 59.5) return `${Math.round(span)} s`;
  const rounded = span < 3600 ? Math.round(span) : Math.round(span / 60) * 60;
  for (const [index, [unit, length]] of UNITS.entries()) {
    if (rounded < length) continue;
    const [next, nextLength] = UNITS[index + 1] ?? ["s", 1];
    const rest = Math.floor((rounded % length) / nextLength);
    return rest === 0
      ? `${Math.floor(rounded / length)} ${unit}`
      : `${Math.floor(rounded / length)} ${unit} ${rest} ${next}`;
  }
  return `${rounded} s`;
}

/** "3 m ago" or "in 2 h": one unit, because an age grows while it is read. now: milliseconds. */
export function relativeText(instant: string, now: number): string {
  const seconds = (Date.parse(instant) - now) / 1000;
  const whole = Math.floor(Math.abs(seconds));
  if (whole < 1) return words.justNow;
  const [value = "", unit = ""] = whole < 60 ? [String(whole), "s"] : durationText(whole).split(" ");
  return seconds < 0 ? words.ago(`${value} ${unit}`) : words.ahead(`${value} ${unit}`);
}

/** Date, time to the second and time zone, in the reader's own. */
export function instantText(instant: string): string {
  return exactInstant.format(new Date(instant));
}

/** The time for today, else with the day. */
export function clockText(instant: string, now: number, seconds = false): string {
  const date = new Date(instant);
  if (new Date(now).toDateString() === date.toDateString()) return (seconds ? timeToSecond : timeOnly).format(date);
  return (seconds ? dayAndSecond : dayAndTime).format(date);
}

/** Whether two of these instants would be written alike without their seconds. */
export function shareMinute(instants: readonly string[]): boolean {
  const minutes = instants.map((instant) => Math.floor(Date.parse(instant) / 60_000));
  return new Set(minutes).size < minutes.length;
}

const BYTE_UNITS = ["B", "kB", "MB", "GB", "TB"];

export function bytesText(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < BYTE_UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 99.5 ? Math.round(value) : value.toFixed(1)} ${BYTE_UNITS[unit] ?? ""}`;
}

/** A share between 0 and 1 as a percentage; small shares keep a digit, so that 0.4 % is not 0 %. */
export function percentText(share: number): string {
  const percent = share * 100;
  return percent > 0 && percent < 9.95 ? `${percent.toFixed(1)} %` : `${Math.round(percent)} %`;
}

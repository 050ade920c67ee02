import type { Window } from "../../api/stats";
import type { SeriesList } from "../../api/stats";
import type { TimeRange } from "../../api/system";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Lengths of the shown windows in milliseconds. */
export const LENGTHS: Record<Window, number> = { "1h": HOUR, "24h": DAY, "7d": 7 * DAY };

export interface Span {
  /** Milliseconds since 1970. */
  from: number;
  to: number;
}

/** The stretch in the address; what is missing or makes no sense there becomes the last hour before `now`. */
export function spanOf(from: string, to: string, now: number): Span {
  const end = Date.parse(to);
  const safeEnd = Number.isNaN(end) ? now : end;
  const begin = Date.parse(from);
  const safeBegin = Number.isNaN(begin) || begin >= safeEnd ? safeEnd - HOUR : begin;
  return { from: safeBegin, to: safeEnd };
}

export function rangeOf({ from, to }: Span): TimeRange {
  return { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
}

/** The shortest window of the series that reaches back to the beginning, with the finest steps; null: too long ago. */
export function windowFor({ from }: Span, now: number): "1h" | "24h" | "7d" | "31d" | null {
  const back = now - from;
  if (back <= HOUR) return "1h";
  if (back <= DAY) return "24h";
  if (back <= 7 * DAY) return "7d";
  return back <= 31 * DAY ? "31d" : null;
}

/** The points of a series within the stretch, with one step more at each side. */
export function cutSeries(list: SeriesList, { from, to }: Span): SeriesList {
  const edge = list.step * 1000;
  return {
    ...list,
    items: list.items.map((series) => ({
      ...series,
      points: series.points.filter(({ at }) => {
        const time = Date.parse(at);
        return time >= from - edge && time <= to + edge;
      }),
    })),
  };
}

/** The stretch of the same length before or after. */
export function shifted({ from, to }: Span, direction: -1 | 1): Span {
  const length = (to - from) * direction;
  return { from: from + length, to: to + length };
}

/** A time as a field of the browser writes it: local, to the minute. */
export function localInput(time: number): string {
  return new Date(time - new Date(time).getTimezoneOffset() * MINUTE).toISOString().slice(0, 16);
}

/** A stretch as the search of jobs reads it: in UTC, to the minute, with the last one whole. */
export function searchRange({ from, to }: Span): string {
  const range = rangeOf({ from, to: to + MINUTE - 1 });
  return `${range.from.slice(0, 16)}..${range.to.slice(0, 16)}`;
}

import type { SeriesList } from "../../api/stats";
import type { ChartData } from "../../parts/chart";
import { words } from "../../words";

const text = words.overview;
type Durations = SeriesList["items"][number]["points"][number]["run"];

const timesOf = (list: SeriesList): number[] => list.items[0]?.points.map(({ at }) => Date.parse(at) / 1000) ?? [];

/** Ends per minute by how they ended, whatever the length of a step. */
export function throughputOf(list: SeriesList): ChartData {
  const points = list.items[0]?.points ?? [];
  const perMinute = 60 / list.step;
  const sum = (...states: string[]) =>
    points.map(({ ended }) => states.reduce((all, state) => all + (ended[state] ?? 0), 0) * perMinute);
  return {
    times: timesOf(list),
    series: [
      { label: text.completed, tone: "completed", area: true, values: sum("completed") },
      { label: text.withErrors, tone: "completed-with-errors", values: sum("completed_with_errors") },
      { label: text.failedSeries, tone: "failed", values: sum("failed") },
      { label: text.retried, tone: "queued", dashed: true, values: points.map(({ retried }) => retried * perMinute) },
      { label: text.other, tone: "cancelled", dashed: true, values: sum("cancelled", "expired") },
    ],
  };
}

/** Half, 95 % and 99 % of attempts: their wait or their run time, in seconds. */
export function durationsOf(list: SeriesList, which: "wait" | "run"): ChartData {
  const points = list.items[0]?.points ?? [];
  const values = (share: keyof Durations) => points.map((point) => point[which][share]);
  return {
    times: timesOf(list),
    series: [
      { label: text.p50, tone: "running", area: true, values: values("p50") },
      { label: text.p95, tone: "warn", values: values("p95") },
      { label: text.p99, tone: "failed", dashed: true, values: values("p99") },
    ],
  };
}

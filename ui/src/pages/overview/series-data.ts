import type { SeriesList } from "../../api/stats";
import type { ChartData } from "../../parts/chart";
import { words } from "../../words";

const text = words.overview;
type Durations = SeriesList["items"][number]["points"][number]["run"];

interface Step {
  point: SeriesList["items"][number]["points"][number];
  /** Seconds of it that have passed. */
  passed: number;
}

/**
 * The steps that say something. The current one is drawn only when half of it has passed: what a few seconds brought
 * would look like a dive or a spike. now: milliseconds.
 */
function stepsOf(list: SeriesList, now: number): Step[] {
  const steps = (list.items[0]?.points ?? []).map((point) => {
    const passed = point.partial ? Math.min(list.step, (now - Date.parse(point.at)) / 1000) : list.step;
    return { point, passed };
  });
  return steps.filter(({ passed }) => passed >= list.step / 2);
}

const timesOf = (steps: readonly Step[]): number[] => steps.map(({ point }) => Date.parse(point.at) / 1000);

/** Ends per minute by how they ended, whatever the length of a step. */
export function throughputOf(list: SeriesList, now: number = Date.now()): ChartData {
  const steps = stepsOf(list, now);
  const perMinute = (of: (point: Step["point"]) => number) =>
    steps.map(({ point, passed }) => (of(point) * 60) / passed);
  const sum = (...states: string[]) =>
    perMinute(({ ended }) => states.reduce((all, state) => all + (ended[state] ?? 0), 0));
  return {
    times: timesOf(steps),
    series: [
      { label: text.completed, tone: "completed", area: true, values: sum("completed") },
      { label: text.withErrors, tone: "completed-with-errors", values: sum("completed_with_errors") },
      { label: text.failedSeries, tone: "failed", values: sum("failed") },
      { label: text.retried, tone: "queued", dashed: true, values: perMinute(({ retried }) => retried) },
      { label: text.other, tone: "cancelled", dashed: true, values: sum("cancelled", "expired") },
    ],
  };
}

/** Half, 95 % and 99 % of attempts: their wait or their run time, in seconds. */
export function durationsOf(list: SeriesList, which: "wait" | "run", now: number = Date.now()): ChartData {
  const steps = stepsOf(list, now);
  const values = (share: keyof Durations) => steps.map(({ point }) => point[which][share]);
  return {
    times: timesOf(steps),
    series: [
      { label: text.p50, tone: "running", area: true, values: values("p50") },
      { label: text.p95, tone: "warn", values: values("p95") },
      { label: text.p99, tone: "failed", dashed: true, values: values("p99") },
    ],
  };
}

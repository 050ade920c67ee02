import type { Deploy } from "../api/system";
import { words } from "../words";
import { percentText } from "../words/format";
import type { ChartMarker } from "./chart";

/** Each deploy at its time: its version, and the share of jobs that failed in the hour before and after. */
export function deployMarkers(deploys: readonly Deploy[]): ChartMarker[] {
  return deploys.map(({ at, version, before, after }) => ({
    at: Date.parse(at) / 1000,
    label:
      before.failure_rate === null || after.failure_rate === null
        ? version
        : words.chart.deploy(version, percentText(before.failure_rate), percentText(after.failure_rate)),
  }));
}

/** The markers within the step that begins at times[index]; the last step has no end. */
export function markersIn(
  markers: readonly ChartMarker[],
  times: readonly number[],
  index: number,
): readonly ChartMarker[] {
  const from = times[index] ?? Infinity;
  const to = times[index + 1] ?? Infinity;
  return markers.filter(({ at }) => at >= from && at < to);
}

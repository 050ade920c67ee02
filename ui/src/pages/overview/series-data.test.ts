import { expect, it } from "vitest";
import type { SeriesList } from "../../api/stats";
import { durationsOf, throughputOf } from "./series-data";

const none = { p50: null, p95: null, p99: null, mean: null };
const list = {
  since: "2026-11-18T10:00:00Z",
  step: 600,
  items: [
    {
      name: null,
      points: [
        {
          at: "2026-11-18T10:00:00Z",
          ended: { completed: 100, failed: 10 },
          retried: 20,
          run: { ...none, p95: 2 },
          wait: none,
        },
        { at: "2026-11-18T10:10:00Z", ended: {}, retried: 0, run: none, wait: none },
      ],
    },
  ],
} as SeriesList;

it("counts ends per minute, whatever the step", () => {
  const chart = throughputOf(list);
  expect(chart.times[1]).toBe(Date.parse("2026-11-18T10:10:00Z") / 1000);
  expect(chart.series.map(({ values }) => values)).toEqual([
    [10, 0],
    [0, 0],
    [1, 0],
    [2, 0],
    [0, 0],
  ]);
});

it("leaves a gap where no attempt ran", () => {
  expect(durationsOf(list, "run").series[1]?.values).toEqual([2, null]);
});

it("is empty before the first job", () => {
  expect(throughputOf({ ...list, items: [] }).times).toEqual([]);
});

it("leaves the current step out until half of it has passed, and counts it by the time that has", () => {
  const points = list.items[0]?.points.map((point) => ({ ...point, partial: true })) ?? [];
  const current = { ...list, items: [{ name: null, points: points.slice(0, 1) }] } as SeriesList;
  const begin = Date.parse("2026-11-18T10:00:00Z");
  expect(throughputOf(current, begin + 60_000).times).toEqual([]);
  expect(durationsOf(current, "run", begin + 60_000).times).toEqual([]);
  expect(throughputOf(current, begin + 300_000).series[0]?.values).toEqual([20]);
});

import { describe, expect, it } from "vitest";
import type { SeriesList } from "../../api/stats";
import { cutSeries, rangeOf, shifted, spanOf, windowFor } from "./time-range";

const now = Date.parse("2026-11-18T12:00:00Z");
const hour = 3_600_000;

describe("the stretch of an incident", () => {
  it("is what the address says", () => {
    const span = spanOf("2026-11-18T10:00:00Z", "2026-11-18T10:30:00Z", now);
    expect(rangeOf(span)).toEqual({ from: "2026-11-18T10:00:00.000Z", to: "2026-11-18T10:30:00.000Z" });
  });

  it.each([
    ["", ""],
    ["nonsense", "nonsense"],
    ["2026-11-18T13:00:00Z", ""],
  ])("is the last hour for %s to %s", (from, to) => {
    expect(spanOf(from, to, now)).toEqual({ from: now - hour, to: now });
  });

  it("moves by its own length", () => {
    expect(shifted({ from: 10, to: 14 }, -1)).toEqual({ from: 6, to: 10 });
    expect(shifted({ from: 10, to: 14 }, 1)).toEqual({ from: 14, to: 18 });
  });

  it.each([
    [0.5, "1h"],
    [3, "24h"],
    [100, "7d"],
    [24 * 20, "31d"],
    [24 * 40, null],
  ])("of %d hours ago is in the series of %s", (hours, window) => {
    expect(windowFor({ from: now - hours * hour, to: now }, now)).toBe(window);
  });

  it("keeps the points inside and one step at each side", () => {
    const points = [0, 1, 2, 3, 4].map((minute) => ({ at: new Date(now + minute * 60_000).toISOString() }));
    const list = { since: "", step: 60, items: [{ name: null, points }] } as unknown as SeriesList;
    const cut = cutSeries(list, { from: now + 2 * 60_000, to: now + 2 * 60_000 });
    expect(cut.items[0]?.points).toEqual(points.slice(1, 4));
  });
});

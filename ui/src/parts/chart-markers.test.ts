import { describe, expect, it } from "vitest";
import type { Deploy } from "../api/system";
import { deployMarkers, markersIn } from "./chart-markers";

const deploy = (before: number | null, after: number | null) =>
  ({
    at: "1970-01-01T00:01:40Z",
    version: "2.0",
    before: { failure_rate: before },
    after: { failure_rate: after },
  }) as Deploy;

describe("deployMarkers", () => {
  it("says how many jobs failed before and after", () => {
    expect(deployMarkers([deploy(0.01, 0.5)])).toEqual([{ at: 100, label: "2.0: 1.0 % → 50 % failed" }]);
  });

  it("names the version alone while nothing has ended", () => {
    expect(deployMarkers([deploy(0.01, null)])[0]?.label).toBe("2.0");
  });
});

describe("markersIn", () => {
  const marker = { at: 100, label: "2.0" };
  it("finds a marker in its step alone", () => {
    const found = [0, 1, 2].map((index) => markersIn([marker], [40, 100, 160], index).length);
    expect(found).toEqual([0, 1, 0]);
  });

  it("has no end for the last step", () => {
    expect(markersIn([marker], [10, 40], 1)).toEqual([marker]);
  });
});

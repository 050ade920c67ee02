import { expect, it } from "vitest";
import { DURATION_STEPS, durationMarks } from "./chart-steps";

it("counts as a clock does", () => {
  expect(durationMarks(95, 5)).toEqual([0, 30, 60, 90]);
  expect(durationMarks(400, 5)).toEqual([0, 120, 240, 360]);
  expect(durationMarks(7, 5)).toEqual([0, 2, 4, 6]);
});

it("has rising steps, without one of 100 seconds", () => {
  expect([...DURATION_STEPS].sort((a, b) => a - b)).toEqual(DURATION_STEPS);
  expect(DURATION_STEPS).not.toContain(100);
});

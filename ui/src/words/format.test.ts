import { describe, expect, it } from "vitest";
import { bytesText, clockText, countText, durationText, percentText, relativeText, shareMinute } from "./format";

describe("durationText", () => {
  it.each([
    [0, "0 s"],
    [0.0004, "1 ms"],
    [0.34, "340 ms"],
    [0.9997, "1.0 s"],
    [4.24, "4.2 s"],
    [9.97, "10 s"],
    [42, "42 s"],
    [59.7, "1 m"],
    [200, "3 m 20 s"],
    [3599.8, "1 h"],
    [18_120, "5 h 2 m"],
    [273_600, "3 d 4 h"],
  ])("writes %d seconds as %s", (seconds, text) => {
    expect(durationText(seconds)).toBe(text);
  });
});

describe("relativeText", () => {
  const now = Date.parse("2026-11-18T12:00:00Z");
  it.each([
    ["2026-11-18T12:00:00Z", "just now"],
    ["2026-11-18T11:59:57Z", "3 s ago"],
    ["2026-11-18T11:56:40Z", "3 m ago"],
    ["2026-11-18T14:00:00Z", "in 2 h"],
    ["2026-11-15T08:00:00Z", "3 d ago"],
  ])("writes %s as %s", (instant, text) => {
    expect(relativeText(instant, now)).toBe(text);
  });
});

describe("clockText", () => {
  const instant = "2026-11-18T12:34:56Z";
  it("has seconds only when asked, with the day or without", () => {
    for (const now of [Date.parse(instant), Date.parse(instant) + 3 * 86_400_000]) {
      expect(clockText(instant, now)).not.toContain("56");
      expect(clockText(instant, now, true)).toContain("56");
    }
  });

  it("needs seconds when two instants share a minute", () => {
    expect(shareMinute([instant, "2026-11-18T12:34:01Z"])).toBe(true);
    expect(shareMinute([instant, "2026-11-18T12:35:01Z"])).toBe(false);
  });
});

it("marks a capped count", () => {
  expect(countText({ value: 7, exact: true })).toBe("7");
  expect(countText({ value: 7, exact: false })).toBe("7+");
});

it("keeps a digit of small shares", () => {
  expect(percentText(0.004)).toBe("0.4 %");
  expect(percentText(0.42)).toBe("42 %");
  expect(percentText(0)).toBe("0 %");
});

it("writes bytes with a unit", () => {
  expect(bytesText(512)).toBe("512 B");
  expect(bytesText(1_234_567)).toBe("1.2 MB");
  expect(bytesText(999_900)).toBe("1.0 MB");
});

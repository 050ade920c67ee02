import { describe, expect, it } from "vitest";
import type { Lane } from "../../api/lanes";
import { changeOf, differences, errorsOf, formOf } from "./lane-form";

const lane: Lane = {
  name: "mail",
  kinds: ["send_mail", "send_digest"],
  slots: 4,
  max_total: null,
  order: "fast",
  poll_interval: 5,
  heartbeat_timeout: 60,
  progress_timeout: null,
  requires_approval: false,
  rate: { amount: 10, per: 1, burst: null, window: false },
  aging_interval: 0.5,
  enabled: true,
  version: 3,
  updated_at: null,
};

describe("the form of a lane", () => {
  it("writes durations as a person would", () => {
    expect(formOf(lane)).toMatchObject({
      poll_interval: "5s",
      heartbeat_timeout: "1m",
      progress_timeout: "",
      aging_interval: "500ms",
    });
  });

  it("sends only what was changed", () => {
    const before = formOf(lane);
    expect(changeOf({ ...before, slots: "8", progress_timeout: "10m" }, before)).toEqual({
      slots: 8,
      progress_timeout: "10m",
    });
    expect(changeOf(before, before)).toEqual({});
  });

  it("clears a cap, a timeout and a rate with an empty field", () => {
    const before = { ...formOf(lane), max_total: "7" };
    expect(changeOf({ ...before, max_total: "", rate_amount: "" }, before)).toEqual({ max_total: null, rate: null });
  });

  it("sends the whole rate when one part of it was changed", () => {
    const before = formOf(lane);
    expect(changeOf({ ...before, rate_per: "1m" }, before)).toEqual({ rate: { amount: 10, per: "1m", window: false } });
  });

  it("refuses what is no number", () => {
    expect(Object.keys(errorsOf({ ...formOf(lane), slots: "many", max_total: "-1" }))).toEqual(["slots", "max_total"]);
  });

  it("names the fields in which two versions differ", () => {
    const mine = formOf(lane);
    expect(differences(mine, { ...mine, slots: "9", kinds: "*" })).toEqual(["kinds", "slots"]);
  });
});

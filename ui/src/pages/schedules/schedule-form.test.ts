import { describe, expect, it } from "vitest";
import type { Schedule } from "../../api/schedules";
import { argsOf, changeOf, errorsOf, formOf, NEW_SCHEDULE } from "./schedule-form";

const before = formOf({
  kind: "report",
  cron: "0 2 * * *",
  every: null,
  tz: "UTC",
  args: { full: true },
  missed: "latest",
  overlap: "queue",
} as unknown as Schedule);

describe("the form of a schedule", () => {
  it("sends only what was changed", () => {
    expect(changeOf({ ...before, tz: "Europe/London" }, before)).toEqual({ tz: "Europe/London" });
    expect(changeOf(before, before)).toEqual({});
  });

  it("replaces a cron rule by an interval", () => {
    expect(changeOf({ ...before, cron: "", every: "15m" }, before)).toEqual({ every: "15m" });
  });

  it("takes only a JSON object for arguments", () => {
    expect(argsOf({ ...before, args: '{"a": 1}' })).toEqual({ a: 1 });
    for (const args of ["[1]", "7", "{", "null"]) expect(errorsOf({ ...before, args })).toHaveProperty("args");
    expect(errorsOf(NEW_SCHEDULE)).toEqual({});
  });
});

import { describe, expect, it } from "vitest";
import type { Schedule } from "../../api/schedules";
import {
  bodyOfForm,
  changeOf,
  differences,
  errorsOf,
  formOf,
  NEW_SCHEDULE,
  objectOf,
  shownField,
} from "./schedule-form";

const before = formOf({
  kind: "report",
  cron: "0 2 * * *",
  every: null,
  tz: "UTC",
  args: { full: true },
  options: { priority: 5, tags: null },
  missed: "latest",
  most_missed: 100,
  windows: [{ hours: "22:00-06:00", days: "sat,sun", then: "skip" }],
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
    expect(objectOf('{"a": 1}')).toEqual({ a: 1 });
    for (const args of ["[1]", "7", "{", "null"]) expect(errorsOf({ ...before, args })).toHaveProperty("args");
    expect(errorsOf(NEW_SCHEDULE)).toEqual({});
  });

  it("shows options that are set, and takes only a JSON object for them", () => {
    expect(objectOf(before.options)).toEqual({ priority: 5 });
    expect(changeOf({ ...before, options: '{"max_attempts": 3}' }, before)).toEqual({ options: { max_attempts: 3 } });
    expect(errorsOf({ ...before, options: "[]" })).toHaveProperty("options");
  });

  it("sends all windows when one of them was changed, added or removed", () => {
    const night = { hours: " 01:00-02:00 ", days: "", then: "defer" } as const;
    const more = { ...before, windows: [...before.windows, night] };
    expect(differences(more, before)).toEqual(["windows"]);
    expect(changeOf(more, before).windows).toEqual([...before.windows, { ...night, hours: "01:00-02:00" }]);
    expect(changeOf({ ...before, windows: [] }, before)).toEqual({ windows: [] });
    expect(bodyOfForm(NEW_SCHEDULE).windows).toEqual([]);
    expect(shownField(before, "windows")).toBe("22:00-06:00 on sat,sun: skip");
  });

  it("takes a count for missed slots", () => {
    expect(changeOf({ ...before, most_missed: "7" }, before)).toEqual({ most_missed: 7 });
    for (const most_missed of ["0", "-1", "x", ""])
      expect(errorsOf({ ...before, most_missed })).toHaveProperty("most_missed");
  });
});

import { expect, it } from "vitest";
import { words } from "../../words";
import { causeOf } from "./cause";

it("names class and message, else the reason, else that it is the rest", () => {
  const group = { other: false, type: "OSError", message: "disk # is full", reason: null };
  expect(causeOf(group)).toBe("OSError: disk # is full");
  expect(causeOf({ ...group, type: null, message: null, reason: "too old" })).toBe("too old");
  expect(causeOf({ ...group, other: true })).toBe(words.failures.other);
});

import { expect, it } from "vitest";
import { suggestionsFor } from "./suggestions";

const names = { kinds: ["report.daily", "report.weekly", "mail.send"], lanes: ["bulk"] };

it("offers fields for the beginning of one, and kinds for a part of their name", () => {
  expect(suggestionsFor("st", names)).toEqual(["state:"]);
  expect(suggestionsFor("weekly", names)).toEqual(["kind:report.weekly"]);
  expect(suggestionsFor("", names)).toHaveLength(10);
});

it("offers values of the field, those that begin with the text first", () => {
  expect(suggestionsFor("state:com", names)).toEqual(["state:completed", "state:completed_with_errors"]);
  expect(suggestionsFor("lane:", names)).toEqual(["lane:bulk"]);
  expect(suggestionsFor("created:<", names)[0]).toBe("created:<15m");
});

it("keeps a minus and the values before the comma", () => {
  expect(suggestionsFor("-state:failed,canc", names)).toEqual(["-state:failed,cancelled"]);
});

import { expect, it } from "vitest";
import { searchValue } from "./searches";

it.each([
  ["send_mail", "send_mail"],
  ["report.daily", "report.daily"],
  ["two words", '"two words"'],
  ["a:b,c", '"a:b,c"'],
  ["-not", '"-not"'],
  ['say "hi"', '"say \\"hi\\""'],
])("writes %s as %s", (value, text) => {
  expect(searchValue(value)).toBe(text);
});

import { expect, it } from "vitest";
import { cronWords } from "./cron-words";

it.each([
  ["* * * * *", "every minute"],
  ["*/15 * * * *", "every 15 minutes"],
  ["5 * * * *", "every hour at :05"],
  ["0 */6 * * *", "every 6 hours at :00"],
  ["30 6 * * *", "at 06:30 every day"],
  ["0 9,17 * * *", "at 09:00 and 17:00 every day"],
  ["30 6 * * MON-FRI", "at 06:30 on workdays"],
  ["30 6 * * 1-5", "at 06:30 on workdays"],
  ["0 2 * * 0", "at 02:00 on Sunday"],
  ["0 2 * * TUE,THU", "at 02:00 on Tuesday and Thursday"],
  ["0 3 1 * *", "at 03:00 on the 1st"],
  ["0 3 L * *", "at 03:00 on the last day of the month"],
  ["0 0 1 JAN *", "at 00:00 on the 1st in January"],
  ["@daily", "at 00:00 every day"],
])("says %s as %s", (rule, sentence) => {
  expect(cronWords(rule)).toBe(sentence);
});

it.each(["1-5/2 3 * * MON#1", "0 8-18 * * *", "0 0 13 * FRI", "nonsense", "99 99 99 99 99 99"])(
  "leaves %s as it is",
  (rule) => {
    expect(cronWords(rule)).toBe(rule);
  },
);

import { expect, it } from "vitest";
import { clockText } from "../../words/format";
import { whyText } from "./why-text";

const now = Date.parse("2026-11-18T12:05:00Z");
const since = clockText("2026-11-18T12:00:30Z", now);
const reason = (code: string, text: string) => ({ code, text, details: {} });

it("writes times in the reader's zone and leaves out the command that has a button", () => {
  const text =
    "It has been awaiting approval since 2026-11-18 12:00:30 UTC (4 min ago). Decide with: rowlock jobs approve X";
  expect(whyText(reason("approval", text), now)).toBe(`It has been awaiting approval since ${since} (4 min ago).`);
});

it("keeps the commands of other reasons", () => {
  const text = "No worker is there. Start one: rowlock worker";
  expect(whyText(reason("no_worker", text), now)).toBe(text);
});

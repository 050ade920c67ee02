import { expect, it } from "vitest";
import type { LogLine } from "../../api/jobs";
import { MOST_LINES, withPage } from "./use-log";

const line = (n: number): LogLine => ({ n: String(n), at: "", level: "INFO", logger: "", message: "", missed: 0 });

it("adds new lines and moves the cursor", () => {
  const log = withPage({ lines: [line(1)], cursor: "1" }, { items: [line(2)], next_cursor: "2" });
  expect(log.lines.map((each) => each.n)).toEqual(["1", "2"]);
  expect(log.cursor).toBe("2");
});

it("keeps the same log when nothing came, so that nothing is drawn again", () => {
  const log = { lines: [line(1)], cursor: "1" };
  expect(withPage(log, { items: [], next_cursor: null })).toBe(log);
});

it("keeps the newest lines of a long log", () => {
  const many = Array.from({ length: MOST_LINES + 10 }, (_, n) => line(n));
  expect(withPage({ lines: [], cursor: null }, { items: many, next_cursor: "x" }).lines[0]?.n).toBe("10");
});

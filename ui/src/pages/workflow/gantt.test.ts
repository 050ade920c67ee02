import { describe, expect, it } from "vitest";
import type { WorkflowNode } from "../../api/workflows";
import { ganttBars, ganttSpan } from "./gantt";

const at = (second: number) => new Date(second * 1000).toISOString();
const step = (name: string, times: [created: number, started: number | null, finished: number | null]): WorkflowNode =>
  ({
    name,
    created_at: at(times[0]),
    run_after: at(times[0]),
    claimed_at: times[1] === null ? null : at(times[1]),
    finished_at: times[2] === null ? null : at(times[2]),
  }) as WorkflowNode;

describe("bars of a time line", () => {
  it("come in the order in which the steps started, those that have not last", () => {
    const bars = ganttBars([step("c", [0, null, null]), step("b", [0, 5, 10]), step("a", [0, 1, 5])], 10_000);
    expect(bars.map(({ node }) => node.name)).toEqual(["a", "b", "c"]);
  });

  it("are shares of the time from the first creation to the last end", () => {
    const [first, second] = ganttBars([step("a", [100, 100, 105]), step("b", [100, 105, 110])], 0);
    expect([first?.runFrom, first?.runTo]).toEqual([0, 0.5]);
    expect([second?.waitFrom, second?.waitTo, second?.runTo]).toEqual([0, 0.5, 1]);
  });

  it("reach to now while a step runs", () => {
    const [bar] = ganttBars([step("a", [0, 5, null])], 10_000);
    expect([bar?.runFrom, bar?.runTo]).toEqual([0.5, 1]);
  });

  it("lie on a line from the first creation to the last end, or to now", () => {
    expect(ganttSpan([step("a", [1, 2, 3]), step("b", [2, 3, 8])], 0)).toEqual({ begin: 1000, end: 8000 });
    expect(ganttSpan([step("a", [1, 2, null])], 9000)).toEqual({ begin: 1000, end: 9000 });
  });

  it("stand at the beginning when everything happened at once", () => {
    expect(ganttBars([step("a", [0, 0, 0])], 0)[0]?.runFrom).toBe(0);
  });
});

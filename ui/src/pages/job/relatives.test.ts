import { describe, expect, it } from "vitest";
import type { Relative } from "../../api/jobs";
import { byRelation } from "./relatives";

const relative = (relation: Relative["relation"], id: string): Relative => ({
  relation,
  id,
  kind: "step",
  state: "queued",
  step: null,
  met: null,
});

describe("relatives of a job", () => {
  it("are grouped, parents first, without empty groups", () => {
    const found = [relative("hook", "c"), relative("parent", "a"), relative("hook", "b")];
    expect(byRelation(found).map(([relation, some]) => [relation, some.map(({ id }) => id)])).toEqual([
      ["parent", ["a"]],
      ["hook", ["c", "b"]],
    ]);
    expect(byRelation([])).toEqual([]);
  });
});

import { describe, expect, it } from "vitest";
import { allLoaded, extended, NOTHING, toggled } from "./selection";

const ROWS = ["a", "b", "c", "d"];

describe("a selection", () => {
  it("takes one and gives it back", () => {
    const one = toggled(NOTHING, "b");
    expect([...one.ids]).toEqual(["b"]);
    expect(toggled(one, "b").ids.size).toBe(0);
  });

  it("extends from the last one in both directions", () => {
    expect([...extended(toggled(NOTHING, "c"), "a", ROWS).ids].sort()).toEqual(["a", "b", "c"]);
    expect([...extended(toggled(NOTHING, "b"), "d", ROWS).ids]).toEqual(["b", "c", "d"]);
  });

  it("extends to one alone when the anchor is gone", () => {
    expect([...extended(toggled(NOTHING, "gone"), "b", ROWS).ids]).toEqual(["gone", "b"]);
  });

  it("takes all that are loaded, and none at the second time", () => {
    const all = allLoaded(NOTHING, ROWS);
    expect(all.ids.size).toBe(4);
    expect(allLoaded(all, ROWS)).toBe(NOTHING);
  });

  it("ends `all that match` with the first single change", () => {
    expect(toggled({ ids: new Set(ROWS), matching: true, anchor: null }, "a").matching).toBe(false);
  });
});

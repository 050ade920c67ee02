import { describe, expect, it } from "vitest";
import { allLoaded, extended, NOTHING, possibleOrders, statesOf, toggled } from "./selection";

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

describe("orders for a selection", () => {
  const rows = [
    { id: "a", state: "failed" },
    { id: "b", state: "pending" },
  ] as const;
  const of = (...ids: string[]) => ({ ids: new Set(ids), matching: false, anchor: null });

  it("are those that at least one selected job can take", () => {
    expect(possibleOrders(statesOf(of("a"), rows, null))).toEqual(["retry", "delete"]);
    expect(possibleOrders(statesOf(of("a", "b"), rows, null))).toHaveLength(6);
  });

  it("follow the state of the search for all that match", () => {
    const matching = { ...of("a"), matching: true };
    expect(possibleOrders(statesOf(matching, rows, "failed"))).toEqual(["retry", "delete"]);
    expect(possibleOrders(statesOf(matching, rows, null))).toHaveLength(6);
  });

  it("are all of them while a selected job is not loaded", () => {
    expect(possibleOrders(statesOf(of("gone"), rows, null))).toHaveLength(6);
  });
});

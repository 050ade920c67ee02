import { expect, it } from "vitest";
import { differencesOf } from "./json-diff";

it("names what changed, came and went, down to the leaf", () => {
  const found = differencesOf({ a: 1, b: { c: [1, 2] }, d: 0 }, { a: 1, b: { c: [1, 3] }, e: true });
  expect(found.map(({ path, change }) => [path, change])).toEqual([
    ["a", "same"],
    ["b.c.0", "same"],
    ["b.c.1", "changed"],
    ["e", "added"],
    ["d", "removed"],
  ]);
});

it("takes a list and an object for different things", () => {
  expect(differencesOf([1], { 0: 1 })).toEqual([{ path: "", before: [1], after: { 0: 1 }, change: "changed" }]);
});

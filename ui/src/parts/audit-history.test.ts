import { expect, it } from "vitest";
import { changedFields } from "./audit-history";

it("names only the fields that a change altered", () => {
  expect(changedFields({ before: { slots: 2, kinds: ["a"] }, after: { slots: 4, kinds: ["a"], rate: null } })).toEqual([
    ["slots", "2", "4"],
    ["rate", "–", "null"],
  ]);
  expect(changedFields({ before: null, after: null })).toEqual([]);
});

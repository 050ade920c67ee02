import { expect, it } from "vitest";
import { fitsWords } from "./fits-words";

it("finds every word that was typed, in any order", () => {
  expect(fitsWords("Orders Pause lane reports", "rep PAU")).toBe(true);
  expect(fitsWords("Orders Pause lane reports", "pause mail")).toBe(false);
  expect(fitsWords("anything", "")).toBe(true);
});

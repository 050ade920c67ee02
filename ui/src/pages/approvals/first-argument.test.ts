import { expect, it } from "vitest";
import { firstArgument } from "./first-argument";

it("names the first argument and its value", () => {
  expect(firstArgument({ args: { order: "A 7", amount: 3 } })).toBe("order: A 7");
  expect(firstArgument({ args: { lines: [1, { sku: "x" }] } })).toBe('lines: [1,{"sku":"x"}]');
});

it("is nothing for a job without arguments", () => {
  expect(firstArgument({ args: {} })).toBeNull();
});

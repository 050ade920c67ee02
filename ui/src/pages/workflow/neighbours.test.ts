import { expect, it } from "vitest";
import type { GraphLayout } from "./layout";
import { neighbour } from "./neighbours";

const layout: GraphLayout = {
  nodes: [
    { name: "a", x: 0, y: 0 },
    { name: "b", x: 200, y: 0 },
    { name: "c", x: 200, y: 50 },
    { name: "d", x: 400, y: 25 },
  ],
  edges: [
    { from: "a", to: "b", path: "" },
    { from: "a", to: "c", path: "" },
    { from: "b", to: "d", path: "" },
    { from: "c", to: "d", path: "" },
  ],
  width: 0,
  height: 0,
};

it.each([
  [null, "ArrowDown", "a"],
  ["a", "ArrowRight", "b"],
  ["b", "ArrowDown", "c"],
  ["c", "ArrowUp", "b"],
  ["c", "ArrowRight", "d"],
  ["d", "ArrowLeft", "b"],
  ["a", "ArrowLeft", null],
  ["b", "ArrowUp", null],
  ["b", "x", null],
])("goes from %s with %s to %s", (from, key, to) => {
  expect(neighbour(layout, from, key)).toBe(to);
});

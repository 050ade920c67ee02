import { describe, expect, it } from "vitest";
import { layoutGraph, NODE_WIDTH } from "./layout";

describe("the layout of a graph", () => {
  it("puts a step to the right of what it waits for", () => {
    const { nodes, edges, width } = layoutGraph({
      nodes: ["extract", "merge", "load"],
      edges: [
        ["extract", "merge"],
        ["merge", "load"],
      ],
    });
    const x = Object.fromEntries(nodes.map((node) => [node.name, node.x]));
    expect(x.merge).toBeGreaterThan((x.extract ?? 0) + NODE_WIDTH);
    expect(x.load).toBeGreaterThan((x.merge ?? 0) + NODE_WIDTH);
    expect(edges.every(({ path }) => path.startsWith("M"))).toBe(true);
    expect(width).toBeGreaterThan(3 * NODE_WIDTH);
  });

  it("takes steps with any name, and without edges", () => {
    const { nodes } = layoutGraph({ nodes: ["__proto__", "a b", "ü/√"], edges: [] });
    expect(nodes.map(({ name }) => name)).toEqual(["__proto__", "a b", "ü/√"]);
    expect(new Set(nodes.map(({ y }) => y)).size).toBe(3);
  });

  it("places a thousand steps", () => {
    const nodes = Array.from({ length: 1000 }, (_, index) => `step ${index}`);
    const edges = nodes.slice(1).map((name, index): [string, string] => [`step ${Math.floor(index / 30) * 30}`, name]);
    const placed = layoutGraph({ nodes, edges: edges.filter(([from, to]) => from !== to) });
    expect(placed.nodes).toHaveLength(1000);
    expect(placed.nodes.every(({ x, y }) => Number.isFinite(x) && Number.isFinite(y))).toBe(true);
  }, 60_000);
});

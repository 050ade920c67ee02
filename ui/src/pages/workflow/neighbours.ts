import type { GraphLayout } from "./layout";

type Arrow = "ArrowLeft" | "ArrowRight" | "ArrowUp" | "ArrowDown";

const isArrow = (key: string): key is Arrow => key.startsWith("Arrow");

/** The step that an arrow key leads to: along an edge to the left or right, in the same column up or down. */
export function neighbour(layout: GraphLayout, from: string | null, key: string): string | null {
  if (!isArrow(key)) return null;
  const here = layout.nodes.find(({ name }) => name === from);
  if (!here) return layout.nodes[0]?.name ?? null;
  const along = (names: string[]) =>
    layout.nodes
      .filter(({ name }) => names.includes(name))
      .sort((one, other) => Math.abs(one.y - here.y) - Math.abs(other.y - here.y))[0]?.name ?? null;
  switch (key) {
    case "ArrowRight":
      return along(layout.edges.filter((edge) => edge.from === from).map((edge) => edge.to));
    case "ArrowLeft":
      return along(layout.edges.filter((edge) => edge.to === from).map((edge) => edge.from));
    case "ArrowUp":
    case "ArrowDown": {
      const side = key === "ArrowDown" ? 1 : -1;
      const column = layout.nodes.filter(({ x, y }) => Math.abs(x - here.x) < 1 && (y - here.y) * side > 0);
      return column.sort((one, other) => Math.abs(one.y - here.y) - Math.abs(other.y - here.y))[0]?.name ?? null;
    }
  }
}

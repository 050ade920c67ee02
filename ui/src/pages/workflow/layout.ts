import dagre from "@dagrejs/dagre";

/** The shape of a graph: names of steps and which follows which. */
export interface GraphShape {
  nodes: readonly string[];
  edges: readonly (readonly [from: string, to: string])[];
}

export interface PlacedNode {
  name: string;
  /** The upper left corner. */
  x: number;
  y: number;
}

export interface PlacedEdge {
  from: string;
  to: string;
  /** A path of SVG. */
  path: string;
}

export interface GraphLayout {
  nodes: PlacedNode[];
  edges: PlacedEdge[];
  width: number;
  height: number;
}

export const NODE_WIDTH = 176;
export const NODE_HEIGHT = 38;
/** Above this number of steps the quicker ranking is used: a second for a thousand steps becomes half. */
const MANY = 150;

interface Point {
  x: number;
  y: number;
}

function curve(points: readonly Point[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let at = first;
  const parts = [`M${first.x.toFixed(1)} ${first.y.toFixed(1)}`];
  for (const next of rest) {
    const middle = ((at.x + next.x) / 2).toFixed(1);
    parts.push(
      `C${middle} ${at.y.toFixed(1)} ${middle} ${next.y.toFixed(1)} ${next.x.toFixed(1)} ${next.y.toFixed(1)}`,
    );
    at = next;
  }
  return parts.join("");
}

/** Places the steps from left to right, each behind the steps that it waits for. */
export function layoutGraph({ nodes, edges }: GraphShape): GraphLayout {
  const graph = new dagre.graphlib.Graph();
  const ranker = nodes.length > MANY ? "tight-tree" : "network-simplex";
  graph.setGraph({ rankdir: "LR", nodesep: 12, ranksep: 48, marginx: 16, marginy: 16, ranker });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const name of nodes) graph.setNode(name, { width: NODE_WIDTH, height: NODE_HEIGHT });
  for (const [from, to] of edges) graph.setEdge(from, to);
  dagre.layout(graph);
  // What dagre's types leave open: a placed node has its middle, an edge its bends, the graph its size.
  const middleOf = (name: string) => graph.node(name) as Point;
  const bendsOf = (from: string, to: string) => (graph.edge(from, to) as { points?: Point[] }).points ?? [];
  const size = graph.graph() as { width?: number; height?: number };
  return {
    nodes: nodes.map((name) => {
      const { x, y } = middleOf(name);
      return { name, x: x - NODE_WIDTH / 2, y: y - NODE_HEIGHT / 2 };
    }),
    edges: graph.edges().map(({ v, w }) => {
      const [from, to] = [middleOf(v), middleOf(w)];
      // From the middle of the right side to the middle of the left one; in between as dagre leads around other steps.
      const between = bendsOf(v, w).slice(1, -1);
      const points = [{ x: from.x + NODE_WIDTH / 2, y: from.y }, ...between, { x: to.x - NODE_WIDTH / 2, y: to.y }];
      return { from: v, to: w, path: curve(points) };
    }),
    width: size.width ?? 0,
    height: size.height ?? 0,
  };
}

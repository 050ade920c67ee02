import { useEffect, useState } from "react";
import type { WorkflowGraph } from "../../api/workflows";
import type { GraphLayout, GraphShape } from "./layout";

type Layout = { status: "drawing" } | { status: "placed"; layout: GraphLayout } | { status: "failed" };

function shapeOf(graph: WorkflowGraph): GraphShape {
  return {
    nodes: graph.nodes.map(({ name }) => name),
    edges: graph.edges.map(({ upstream, downstream }) => [upstream, downstream] as const),
  };
}

/** The places of the steps, computed beside the page and again only when steps or edges were added. */
export function useLayout(graph: WorkflowGraph): Layout {
  const shape = JSON.stringify(shapeOf(graph));
  const [placed, setPlaced] = useState<{ shape: string; layout: GraphLayout | null } | null>(null);
  useEffect(() => {
    const worker = new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }: MessageEvent<GraphLayout>) => setPlaced({ shape, layout: data });
    worker.onerror = () => setPlaced({ shape, layout: null });
    worker.postMessage(JSON.parse(shape));
    return () => worker.terminate();
  }, [shape]);
  if (!placed) return { status: "drawing" };
  // While a grown graph is placed anew, the places from before are good enough.
  return placed.layout ? { status: "placed", layout: placed.layout } : { status: "failed" };
}

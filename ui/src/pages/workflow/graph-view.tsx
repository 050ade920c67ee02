import { memo, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useLocation } from "wouter";
import type { State } from "../../api/client";
import { jobHref } from "../../api/searches";
import type { WorkflowGraph, WorkflowNode } from "../../api/workflows";
import { IconButton } from "../../parts/button";
import { classNames } from "../../parts/class-names";
import { CheckField } from "../../parts/field";
import { Loading, Notice } from "../../parts/page-states";
import { words } from "../../words";
import { numberText } from "../../words/format";
import styles from "./graph-view.module.css";
import { type GraphLayout, NODE_HEIGHT, NODE_WIDTH, type PlacedNode } from "./layout";
import { neighbour } from "./neighbours";
import { useLayout } from "./use-layout";
import { useViewBox } from "./use-view-box";

const text = words.workflows.graph;

interface GraphViewProps {
  graph: WorkflowGraph;
  chosen: string | null;
  onChoose: (step: string) => void;
}

/** The steps as boxes and arrows: drag to move, wheel to zoom, arrow keys to walk along. */
export default function GraphView(props: GraphViewProps) {
  const layout = useLayout(props.graph);
  if (layout.status === "failed") return <Notice icon="warning" title={text.failed} />;
  if (layout.status === "drawing") return <Loading lines={8} />;
  return <PlacedGraph {...props} layout={layout.layout} />;
}

function PlacedGraph({ graph, chosen, onChoose, layout }: GraphViewProps & { layout: GraphLayout }) {
  const svg = useRef<SVGSVGElement>(null);
  const [follow, setFollow] = useState(false);
  const [, navigate] = useLocation();
  const view = useViewBox(svg, layout);
  const byName = useMemo(() => new Map(graph.nodes.map((node) => [node.name, node])), [graph.nodes]);
  const running = graph.nodes.find((node) => node.state === "running")?.name;
  const { show } = view;

  const placeOf = useCallback(
    (name: string | null | undefined) => layout.nodes.find((node) => node.name === name),
    [layout],
  );

  useEffect(() => {
    const place = placeOf(running);
    if (follow && place) show(place.x + NODE_WIDTH / 2, place.y + NODE_HEIGHT / 2);
  }, [follow, placeOf, running, show]);

  useEffect(() => {
    const element = svg.current;
    if (!element) return;
    const press = (event: KeyboardEvent) => {
      const job = chosen === null ? undefined : byName.get(chosen)?.job_id;
      if (event.key === "Enter" && job) navigate(jobHref(job));
      const next = neighbour(layout, chosen, event.key);
      if (next === null) return;
      event.preventDefault();
      onChoose(next);
      const place = placeOf(next);
      if (place) show(place.x + NODE_WIDTH / 2, place.y + NODE_HEIGHT / 2);
    };
    const choose = (event: MouseEvent) => {
      const name = (event.target as Element).closest<SVGGElement>("g[data-step]")?.dataset.step;
      if (name !== undefined) onChoose(name);
    };
    element.addEventListener("keydown", press);
    element.addEventListener("click", choose);
    return () => {
      element.removeEventListener("keydown", press);
      element.removeEventListener("click", choose);
    };
  }, [byName, chosen, layout, navigate, onChoose, placeOf, show]);

  return (
    <div className={styles.graph}>
      <div className={styles.tools}>
        <IconButton icon="plus" label={text.zoomIn} onClick={() => view.zoom(0.8)} />
        <IconButton icon="minus" label={text.zoomOut} onClick={() => view.zoom(1.25)} />
        <IconButton icon="fit" label={text.fit} onClick={view.fit} />
        <CheckField label={text.follow} checked={follow} onChange={(event) => setFollow(event.target.checked)} />
      </div>
      <svg
        ref={svg}
        className={styles.canvas}
        viewBox={view.viewBox}
        role="img"
        // The arrow keys need the focus.

        tabIndex={0}
        aria-label={`${text.label(graph.name, numberText(graph.nodes.length))}. ${text.keys}`}
      >
        <Edges layout={layout} byName={byName} />
        {layout.nodes.map((place) => {
          const node = byName.get(place.name);
          return node && <NodeBox key={place.name} place={place} node={node} chosen={place.name === chosen} />;
        })}
      </svg>
    </div>
  );
}

const ENDED: ReadonlySet<State> = new Set<State>(["completed", "completed_with_errors"]);

const Edges = memo(function Edges({ layout, byName }: { layout: GraphLayout; byName: Map<string, WorkflowNode> }) {
  return layout.edges.map(({ from, to, path }) => {
    const state = byName.get(from)?.state;
    return (
      <path
        key={`${from}\n${to}`}
        d={path}
        className={classNames(styles.edge, state && ENDED.has(state) && styles.passed)}
      />
    );
  });
});

interface NodeBoxProps {
  place: PlacedNode;
  node: WorkflowNode;
  chosen: boolean;
}

/** Letters that fit into a box. */
const FITS = 24;
const cut = (name: string) => (name.length > FITS ? `${name.slice(0, FITS - 1)}…` : name);

const NodeBox = memo(
  function NodeBox({ place, node, chosen }: NodeBoxProps) {
    return (
      <g
        data-step={node.name}
        transform={`translate(${place.x} ${place.y})`}
        className={classNames(styles.node, styles[node.state], chosen && styles.chosen)}
      >
        <title>{`${node.name}: ${words.states[node.state]}`}</title>
        <rect width={NODE_WIDTH} height={NODE_HEIGHT} rx={6} className={styles.box} />
        <rect width={4} height={NODE_HEIGHT} rx={2} className={styles.stripe} />
        <text x={12} y={16} className={styles.name}>
          {cut(node.name)}
        </text>
        <text x={12} y={30} className={styles.state}>
          {words.states[node.state]}
        </text>
      </g>
    );
  },
  // A new answer has new objects for steps in which nothing changed.
  (before, after) =>
    before.chosen === after.chosen && before.place === after.place && before.node.state === after.node.state,
);

import type { WorkflowGraph, WorkflowNode } from "../../api/workflows";
import { StateBadge } from "../../parts/state-badge";
import { type Column, Table } from "../../parts/table";
import { Elapsed, Instant } from "../../parts/time";
import { words } from "../../words";
import { StepName } from "./step-name";

const text = words.workflows;

/** Every step with what it waits for: the same as the graph, for screen readers and for sorting by eye. */
export function StepsTable({ graph, onChoose }: { graph: WorkflowGraph; onChoose: (step: string) => void }) {
  const upstream = new Map<string, string[]>();
  for (const edge of graph.edges)
    upstream.set(edge.downstream, [...(upstream.get(edge.downstream) ?? []), edge.upstream]);
  const columns: Column<WorkflowNode>[] = [
    { key: "name", title: text.step, cell: (node) => <StepName node={node} /> },
    { key: "state", title: text.state, width: "11rem", cell: (node) => <StateBadge state={node.state} /> },
    { key: "kind", title: text.kind, hideBelow: "tablet", cell: (node) => node.kind },
    {
      key: "attempt",
      title: text.attempt,
      width: "5.5rem",
      align: "end",
      hideBelow: "phone",
      cell: (node) => `${node.attempt}/${node.max_attempts}`,
    },
    {
      key: "waits",
      title: text.waits,
      hideBelow: "laptop",
      cell: (node) => {
        const names = upstream.get(node.name)?.join(", ") ?? words.none;
        return <span title={names}>{names}</span>;
      },
    },
    {
      key: "started",
      title: text.started,
      width: "7rem",
      align: "end",
      hideBelow: "phone",
      cell: (node) => <Instant at={node.claimed_at} />,
    },
    {
      key: "took",
      title: text.ran,
      width: "6rem",
      align: "end",
      hideBelow: "phone",
      cell: (node) => <Elapsed since={node.claimed_at} until={node.finished_at} />,
    },
  ];
  return (
    <Table
      label={text.steps}
      rows={graph.nodes}
      columns={columns}
      rowKey={(node) => node.name}
      onOpen={(node) => onChoose(node.name)}
    />
  );
}

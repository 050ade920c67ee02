import type { WorkflowNode } from "../../api/workflows";

/** A step on the time line: shares of the whole, from 0 to 1. */
export interface GanttBar {
  node: WorkflowNode;
  /** From when it could start until it did. */
  waitFrom: number;
  waitTo: number;
  /** Null: it has not started. */
  runFrom: number | null;
  runTo: number | null;
}

const time = (instant: string | null) => (instant === null ? null : Date.parse(instant));

/** From the first creation to the last end, or to now while a step is open. Milliseconds. */
export function ganttSpan(nodes: readonly WorkflowNode[], now: number): { begin: number; end: number } {
  const begin = Math.min(...nodes.map((node) => Date.parse(node.created_at)));
  const open = nodes.some((node) => node.finished_at === null);
  const ends = nodes.map((node) => time(node.finished_at) ?? time(node.claimed_at) ?? begin);
  return { begin, end: Math.max(begin + 1, open ? now : 0, ...ends) };
}

/** The steps in the order in which they started, on one time line. */
export function ganttBars(nodes: readonly WorkflowNode[], now: number): GanttBar[] {
  const { begin, end } = ganttSpan(nodes, now);
  const share = (at: number) => Math.min(1, Math.max(0, (at - begin) / (end - begin)));
  const startOf = (node: WorkflowNode) => time(node.claimed_at) ?? Number.POSITIVE_INFINITY;
  return [...nodes]
    .sort((one, other) => startOf(one) - startOf(other) || 0)
    .map((node) => {
      const started = time(node.claimed_at);
      const finished = time(node.finished_at);
      const due = Math.min(Date.parse(node.run_after), started ?? Number.POSITIVE_INFINITY);
      return {
        node,
        waitFrom: share(due),
        waitTo: share(started ?? finished ?? end),
        runFrom: started === null ? null : share(started),
        runTo: started === null ? null : share(finished ?? end),
      };
    });
}

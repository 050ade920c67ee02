import type { WorkflowNode } from "../../api/workflows";
import { useNow } from "../../hooks/use-now";
import { durationMarks } from "../../parts/chart-steps";
import { classNames } from "../../parts/class-names";
import { type Column, Table } from "../../parts/table";
import { Elapsed } from "../../parts/time";
import { words } from "../../words";
import { durationText } from "../../words/format";
import { type GanttBar, ganttBars, ganttSpan } from "./gantt";
import styles from "./gantt-view.module.css";
import { StepName } from "./step-name";

const text = words.workflows;
const percent = (share: number) => `${(share * 100).toFixed(2)}%`;

function Bar({ bar }: { bar: GanttBar }) {
  const { waitFrom, waitTo, runFrom, runTo, node } = bar;
  return (
    <span className={styles.line}>
      <span
        className={styles.waited}
        style={{ left: percent(waitFrom), width: percent(Math.max(0, waitTo - waitFrom)) }}
      />
      {runFrom !== null && runTo !== null && (
        <span
          className={classNames(styles.ran, styles[node.state])}
          style={{ left: percent(runFrom), width: percent(runTo - runFrom) }}
        />
      )}
    </span>
  );
}

/** Marks of an axis, at most. */
const MARKS = 5;
const LATE = 0.7;

/** The time since the first step was created, as marks above the bars. */
function Axis({ seconds }: { seconds: number }) {
  return (
    <>
      <span className="visually-hidden">{text.times}</span>
      <span aria-hidden="true" className={styles.axis}>
        {durationMarks(seconds, MARKS).map((mark) => {
          const share = mark / seconds;
          // The text of a late mark stands before its line: behind it there may be no room.
          return share > LATE ? (
            <span key={mark} className={styles.late} style={{ right: percent(1 - share) }}>
              {durationText(mark)}
            </span>
          ) : (
            <span key={mark} style={{ left: percent(share) }}>
              {durationText(mark)}
            </span>
          );
        })}
      </span>
    </>
  );
}

/** When each step waited and ran, one under the other. */
export function GanttView({ nodes, onChoose }: { nodes: readonly WorkflowNode[]; onChoose: (step: string) => void }) {
  const now = useNow();
  const { begin, end } = ganttSpan(nodes, now);
  const columns: Column<GanttBar>[] = [
    { key: "name", title: text.step, width: "min(16rem, 35%)", cell: ({ node }) => <StepName node={node} /> },
    {
      key: "bar",
      title: text.times,
      heading: <Axis seconds={(end - begin) / 1000} />,
      cell: (bar) => <Bar bar={bar} />,
    },
    {
      key: "ran",
      title: text.ran,
      width: "6rem",
      align: "end",
      hideBelow: "phone",
      cell: ({ node }) => <Elapsed since={node.claimed_at} until={node.finished_at} />,
    },
  ];
  return (
    <Table
      dense
      label={text.tabs.gantt}
      rows={ganttBars(nodes, now)}
      columns={columns}
      rowKey={({ node }) => node.name}
      onOpen={({ node }) => onChoose(node.name)}
    />
  );
}

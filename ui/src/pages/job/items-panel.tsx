import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type ItemState, type JobItem, jobPartQueries } from "../../api/jobs";
import { Panel } from "../../parts/page";
import { Empty, Loaded } from "../../parts/page-states";
import { type Column, Table } from "../../parts/table";
import { Segments } from "../../parts/tabs";
import { Elapsed } from "../../parts/time";
import { words } from "../../words";
import { errorLine } from "./error-text";
import styles from "./job.module.css";

const text = words.job.items;
const STATES: readonly ItemState[] = ["in_progress", "completed", "skipped", "failed"];

const COLUMNS: readonly Column<JobItem>[] = [
  { key: "name", title: text.name, cell: (item) => <span title={item.name}>{item.name}</span> },
  { key: "state", title: text.state, width: "min(8rem, 35vw)", cell: (item) => text.states[item.state] },
  { key: "phase", title: text.phase, width: "9rem", hideBelow: "tablet", cell: (item) => item.phase || words.none },
  {
    key: "ran",
    title: text.ran,
    width: "6rem",
    align: "end",
    hideBelow: "phone",
    cell: (item) => <Elapsed since={item.started_at} until={item.ended_at} />,
  },
  {
    key: "detail",
    title: text.detail,
    hideBelow: "phone",
    cell: (item) => {
      const shown = item.reason ?? errorLine(item.error);
      return shown === null ? words.none : <span title={shown}>{shown}</span>;
    },
  },
];

/** The items of the last attempt, by state. */
export function ItemsPanel({ id, running }: { id: string; running: boolean }) {
  const [state, setState] = useState<ItemState | "all">("all");
  const query = useInfiniteQuery({
    ...jobPartQueries.items(id, state === "all" ? null : state),
    refetchInterval: running ? 2500 : false,
  });
  return (
    <Panel flush>
      <div className={styles.itemTools}>
        <Segments
          label={text.state}
          choices={[{ name: "all", label: text.all }, ...STATES.map((name) => ({ name, label: text.states[name] }))]}
          chosen={state}
          onChoose={setState}
        />
      </div>
      <Loaded query={query} lines={5}>
        {(data) => {
          const items = data.pages.flatMap((page) => page.items);
          if (items.length === 0) return <Empty title={text.none}>{text.noneText}</Empty>;
          return (
            <Table
              label={words.job.sections.items}
              rows={items}
              columns={COLUMNS}
              rowKey={(item) => `${item.phase}/${item.name}`}
              onEnd={() => {
                if (query.hasNextPage && !query.isFetching) void query.fetchNextPage();
              }}
            />
          );
        }}
      </Loaded>
    </Panel>
  );
}

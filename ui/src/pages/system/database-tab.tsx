import { useQuery } from "@tanstack/react-query";
import { type SystemStatus, systemQueries } from "../../api/system";
import { Panel } from "../../parts/page";
import { Loaded } from "../../parts/page-states";
import { type Column, Table } from "../../parts/table";
import { Instant } from "../../parts/time";
import { words } from "../../words";
import { bytesText, numberText, percentText, shortNumber } from "../../words/format";
import { RetentionPanel } from "./retention-panel";
import styles from "./system.module.css";

const text = words.system;

type SizedTable = SystemStatus["tables"][number];
/** Dead rows above this share of all rows are marked: vacuum does not keep up. */
const MANY_DEAD = 0.2;
const MOST_INDEXES = 30;

const TABLES: Column<SizedTable>[] = [
  { key: "name", title: text.table, cell: ({ name }) => name },
  { key: "rows", title: text.rows, width: "6rem", align: "end", cell: ({ live }) => shortNumber(live) },
  {
    key: "dead",
    title: text.dead,
    width: "9rem",
    align: "end",
    hideBelow: "phone",
    cell: ({ live, dead }) => {
      const share = dead / Math.max(1, live + dead);
      return (
        <span className={share > MANY_DEAD && dead > 1000 ? styles.warn : undefined}>
          {shortNumber(dead)} ({percentText(share)})
        </span>
      );
    },
  },
  { key: "bytes", title: text.size, width: "6rem", align: "end", cell: ({ bytes }) => bytesText(bytes) },
  {
    key: "indexes",
    title: text.indexSize,
    width: "6rem",
    align: "end",
    hideBelow: "phone",
    cell: ({ index_bytes }) => bytesText(index_bytes),
  },
  {
    key: "vacuumed",
    title: text.vacuumed,
    width: "7rem",
    align: "end",
    hideBelow: "tablet",
    cell: ({ vacuumed_at }) => <Instant at={vacuumed_at} />,
  },
];

const INDEXES: Column<SystemStatus["indexes"][number]>[] = [
  { key: "name", title: text.index, cell: ({ name }) => name },
  { key: "table", title: text.table, hideBelow: "phone", cell: ({ table }) => table },
  { key: "scans", title: text.scans, width: "6rem", align: "end", cell: ({ scans }) => shortNumber(scans) },
  { key: "bytes", title: text.size, width: "6rem", align: "end", cell: ({ bytes }) => bytesText(bytes) },
];

const STEPS: Column<SystemStatus["steps"][number]>[] = [
  { key: "version", title: text.migration, width: "6rem", cell: ({ version }) => String(version).padStart(4, "0") },
  { key: "name", title: text.tokenName, cell: ({ name }) => name },
  {
    key: "at",
    title: text.applied,
    width: "8rem",
    align: "end",
    cell: ({ applied_at }) => <Instant at={applied_at} />,
  },
];

/** Sizes, dead rows, retention and migrations. */
export function DatabaseTab() {
  const status = useQuery({ ...systemQueries.status(), refetchInterval: 30_000 });
  return (
    <Loaded query={status}>
      {(data) => (
        <>
          <Panel title={text.tables} flush>
            <Table dense label={text.tables} rows={data.tables} columns={TABLES} rowKey={({ name }) => name} />
          </Panel>
          <Panel title={`${text.indexes} (${numberText(data.indexes.length)})`} flush>
            <Table
              dense
              label={text.indexes}
              rows={data.indexes.slice(0, MOST_INDEXES)}
              columns={INDEXES}
              rowKey={({ name }) => name}
            />
          </Panel>
          <div className={styles.columns}>
            <RetentionPanel />
            <Panel title={text.migrations} flush>
              <Table
                dense
                label={text.migrations}
                rows={[...data.steps].reverse()}
                columns={STEPS}
                rowKey={({ version }) => String(version)}
              />
            </Panel>
          </div>
        </>
      )}
    </Loaded>
  );
}

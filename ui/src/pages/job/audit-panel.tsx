import { useInfiniteQuery } from "@tanstack/react-query";
import { type AuditEntry, systemQueries } from "../../api/system";
import { Panel } from "../../parts/page";
import { Empty, Loaded } from "../../parts/page-states";
import { type Column, Table } from "../../parts/table";
import { Instant } from "../../parts/time";
import { words } from "../../words";

const text = words.job.audit;

const changeText = (entry: AuditEntry): string => {
  const names = new Set([...Object.keys(entry.before ?? {}), ...Object.keys(entry.after ?? {})]);
  const value = (from: AuditEntry["before"], name: string) => JSON.stringify(from?.[name] ?? null);
  return [...names].map((name) => `${name}: ${value(entry.before, name)} → ${value(entry.after, name)}`).join(", ");
};

const COLUMNS: readonly Column<AuditEntry>[] = [
  { key: "at", title: text.at, width: "6rem", cell: (entry) => <Instant at={entry.at} /> },
  { key: "by", title: text.by, width: "min(10rem, 30vw)", cell: (entry) => entry.acting_for ?? entry.subject },
  {
    key: "action",
    title: text.action,
    width: "min(11rem, 36vw)",
    cell: (entry) => <span title={entry.action}>{entry.action}</span>,
  },
  {
    key: "change",
    title: text.change,
    hideBelow: "phone",
    cell: (entry) => <span title={changeText(entry)}>{changeText(entry) || words.none}</span>,
  },
  { key: "note", title: text.note, hideBelow: "tablet", cell: (entry) => entry.note ?? words.none },
];

/** Who ordered what of this job. */
export function AuditPanel({ id }: { id: string }) {
  const query = useInfiniteQuery(systemQueries.audit({ target: `job:${id}` }));
  return (
    <Panel flush>
      <Loaded query={query} lines={4}>
        {(data) => {
          const entries = data.pages.flatMap((page) => page.items);
          if (entries.length === 0) return <Empty title={text.none} />;
          return (
            <Table label={words.job.sections.audit} rows={entries} columns={COLUMNS} rowKey={(entry) => entry.id} />
          );
        }}
      </Loaded>
    </Panel>
  );
}

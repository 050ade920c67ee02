import { useQuery } from "@tanstack/react-query";
import { type Deploy, systemQueries, type TimeRange } from "../../api/system";
import { classNames } from "../../parts/class-names";
import { Loaded } from "../../parts/page-states";
import { type Column, Table } from "../../parts/table";
import { Instant } from "../../parts/time";
import { words } from "../../words";
import { numberText, percentText } from "../../words/format";
import styles from "./incident.module.css";

const text = words.incident;

const rateText = (rate: number | null): string => (rate === null ? words.none : percentText(rate));

/** A deploy after which clearly more jobs failed than before. */
function isWorse({ before, after }: Deploy): boolean {
  const [was, is] = [before.failure_rate ?? 0, after.failure_rate ?? 0];
  return after.failed >= 3 && is > 0.02 && is > was * 2;
}

const COLUMNS: Column<Deploy>[] = [
  { key: "version", title: words.overview.version, cell: ({ version }) => version },
  { key: "at", title: text.firstWorker, width: "9rem", hideBelow: "phone", cell: ({ at }) => <Instant at={at} /> },
  {
    key: "workers",
    title: text.workersNow,
    width: "8rem",
    align: "end",
    hideBelow: "phone",
    cell: ({ workers }) => numberText(workers),
  },
  {
    key: "before",
    title: text.failedBefore,
    width: "min(10rem, 34vw)",
    align: "end",
    cell: ({ before }) => rateText(before.failure_rate),
  },
  {
    key: "after",
    title: text.failedAfter,
    width: "min(10rem, 34vw)",
    align: "end",
    cell: (deploy) => (
      <span className={classNames(isWorse(deploy) && styles.worse)}>{rateText(deploy.after.failure_rate)}</span>
    ),
  },
];

/** Versions that appeared in the stretch, with how many jobs failed in the hour before and after. */
export function DeployTable({ range }: { range: TimeRange }) {
  const deploys = useQuery(systemQueries.deploys(range));
  return (
    <Loaded query={deploys} lines={3}>
      {({ items }) =>
        items.length === 0 ? (
          <p className={styles.none}>{text.noDeploys}</p>
        ) : (
          <Table
            dense
            label={text.deploys}
            rows={items}
            columns={COLUMNS}
            rowKey={({ version, at }) => `${version} ${at}`}
          />
        )
      }
    </Loaded>
  );
}

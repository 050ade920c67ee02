import { Link } from "wouter";
import type { Job } from "../../api/client";
import { useNow } from "../../hooks/use-now";
import type { Column } from "../../parts/table";
import { StateBadge } from "../../parts/state-badge";
import { Elapsed, Instant } from "../../parts/time";
import { words } from "../../words";
import { numberText, percentText } from "../../words/format";
import { errorLine } from "../job/error-text";
import styles from "./jobs.module.css";
import { Why, WhyButton } from "./why-cell";

const title = words.jobs.column;

function StateCell({ job }: { job: Job }) {
  const { progress } = job;
  const shown = job.state === "running" ? progress : null;
  const how = shown && [shown.fraction !== null && percentText(shown.fraction), shown.phase].filter(Boolean).join(" ");
  return (
    <span className={styles.state}>
      <StateBadge state={job.state} />
      {shown && (
        <span className={styles.progress}>
          {shown.fraction !== null && <progress max={1} value={shown.fraction} aria-label={shown.phase ?? job.kind} />}
          <span title={how ?? ""}>{how}</span>
        </span>
      )}
    </span>
  );
}

/** How long it waited from the moment when it might have started. */
function Waited({ job }: { job: Job }) {
  const now = useNow();
  const due = Date.parse(job.run_after) > Date.parse(job.created_at) ? job.run_after : job.created_at;
  if (job.claimed_at)
    return (
      <Elapsed since={Date.parse(due) < Date.parse(job.claimed_at) ? due : job.created_at} until={job.claimed_at} />
    );
  if (job.finished_at) return <Elapsed since={job.created_at} until={job.finished_at} />;
  return Date.parse(job.run_after) > now ? <Instant at={job.run_after} /> : <Elapsed since={due} />;
}

/** Leads to the job too: on a phone there is no room for its id. */
function Kind({ job }: { job: Job }) {
  return (
    <Link href={`/jobs/${job.id}`} title={job.kind} className={styles.kind}>
      {job.kind}
    </Link>
  );
}

export const COLUMNS: readonly Column<Job>[] = [
  {
    key: "id",
    title: title.id,
    width: "10.5rem",
    hideBelow: "phone",
    cell: (job) => (
      <Link href={`/jobs/${job.id}`} className={styles.id ?? ""}>
        {job.id}
      </Link>
    ),
  },
  { key: "kind", title: title.kind, cell: (job) => <Kind job={job} /> },
  { key: "state", title: title.state, width: "min(12.5rem, 40vw)", cell: (job) => <StateCell job={job} /> },
  { key: "why", title: title.why, hideBelow: "laptop", cell: (job) => <Why job={job} /> },
  { key: "lane", title: title.lane, width: "6rem", hideBelow: "laptop", cell: (job) => job.lane ?? words.none },
  {
    key: "priority",
    title: title.priority,
    width: "4.5rem",
    align: "end",
    hideBelow: "laptop",
    cell: (job) => numberText(job.priority),
  },
  {
    key: "attempt",
    title: title.attempt,
    width: "4.75rem",
    align: "end",
    hideBelow: "tablet",
    cell: (job) => `${job.attempt}/${job.max_attempts}`,
  },
  {
    key: "created",
    title: title.created,
    width: "5.75rem",
    align: "end",
    hideBelow: "phone",
    cell: (job) => <Instant at={job.created_at} />,
  },
  {
    key: "waited",
    title: title.waited,
    width: "5rem",
    align: "end",
    hideBelow: "tablet",
    cell: (job) => <Waited job={job} />,
  },
  {
    key: "ran",
    title: title.ran,
    width: "5rem",
    align: "end",
    hideBelow: "tablet",
    cell: (job) =>
      job.claimed_at && (job.state === "running" || job.finished_at) ? (
        <Elapsed since={job.claimed_at} until={job.finished_at} />
      ) : (
        words.none
      ),
  },
  {
    key: "ended",
    title: title.ended,
    width: "5.75rem",
    align: "end",
    hideBelow: "tablet",
    cell: (job) => <Instant at={job.finished_at} />,
  },
  { key: "worker", title: title.worker, width: "9rem", hideBelow: "laptop", cell: (job) => job.worker ?? words.none },
  {
    key: "tags",
    title: title.tags,
    width: "9rem",
    hideBelow: "laptop",
    cell: (job) => job.tags.join(", ") || words.none,
  },
  { key: "by", title: title.by, width: "8rem", hideBelow: "laptop", cell: (job) => job.submitted_by ?? words.none },
  { key: "tenant", title: title.tenant, width: "7rem", hideBelow: "laptop", cell: (job) => job.tenant ?? words.none },
  {
    key: "error",
    title: title.error,
    hideBelow: "tablet",
    cell: (job) => {
      const text = errorLine(job.errors);
      return text === null ? words.none : <span title={text}>{text}</span>;
    },
  },
];

/** The column "why" where there is no room for words. */
const WHY_BUTTON: Column<Job> = {
  key: "why-button",
  title: title.why,
  heading: null,
  width: "2.75rem",
  showBelow: "laptop",
  cell: (job) => <WhyButton job={job} />,
};

export const DEFAULT_COLUMNS: readonly string[] = ["id", "kind", "state", "why", "lane", "created", "waited", "ran"];

/** The columns that a list of keys names, in their usual order; all of the usual ones for an empty or unknown list. */
export function columnsOf(keys: string): readonly Column<Job>[] {
  const wanted = keys ? keys.split(",") : DEFAULT_COLUMNS;
  const found = COLUMNS.filter((column) => wanted.includes(column.key));
  const shown = found.length > 0 ? found : COLUMNS.filter((column) => DEFAULT_COLUMNS.includes(column.key));
  return shown.flatMap((column) => (column.key === "why" ? [column, WHY_BUTTON] : [column]));
}

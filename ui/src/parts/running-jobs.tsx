import { Link, useLocation } from "wouter";
import type { Schema } from "../api/client";
import { jobHref } from "../api/searches";
import { words } from "../words";
import { percentText } from "../words/format";
import { Meter } from "./meter";
import styles from "./running-jobs.module.css";
import { type Column, Table } from "./table";
import { Elapsed } from "./time";

type RunningJob = Schema["RunningAnswer"];
const text = words.runningJobs;

const COLUMNS: Column<RunningJob>[] = [
  {
    key: "id",
    title: text.job,
    width: "10.5rem",
    hideBelow: "tablet",
    cell: (job) => (
      <Link href={jobHref(job.id)} className={styles.id ?? ""}>
        {job.id}
      </Link>
    ),
  },
  // A link too: on narrow screens there is no room for the id.
  {
    key: "kind",
    title: text.kind,
    cell: (job) => (
      <Link href={jobHref(job.id)} title={job.kind} className={styles.kind ?? ""}>
        {job.kind}
      </Link>
    ),
  },
  {
    key: "progress",
    title: text.progress,
    hideBelow: "phone",
    cell: ({ kind, progress, cancel_requested }) =>
      cancel_requested ? (
        <em>{text.cancelling}</em>
      ) : progress?.fraction === null || progress?.fraction === undefined ? (
        (progress?.phase ?? words.none)
      ) : (
        <span className={styles.progress}>
          <Meter value={Math.round(progress.fraction * 100)} max={100} label={text.progressOf(kind)} />
          <span>
            {percentText(progress.fraction)} {progress.phase}
          </span>
        </span>
      ),
  },
  {
    key: "attempt",
    title: text.attempt,
    width: "4.5rem",
    align: "end",
    hideBelow: "tablet",
    cell: (job) => job.attempt,
  },
  { key: "since", title: text.runs, width: "7rem", align: "end", cell: (job) => <Elapsed since={job.since} /> },
];

/** Jobs that run now, the longest running first as the API gives them. */
export function RunningJobs({ jobs, empty }: { jobs: readonly RunningJob[]; empty: string }) {
  const [, navigate] = useLocation();
  if (jobs.length === 0) return <p className={styles.empty}>{empty}</p>;
  return (
    <Table
      dense
      label={text.label}
      rows={jobs}
      columns={COLUMNS}
      rowKey={(job) => job.id}
      onOpen={(job) => navigate(jobHref(job.id))}
    />
  );
}

import { useInfiniteQuery } from "@tanstack/react-query";
import type { Job } from "../../api/client";
import { jobQueries } from "../../api/jobs";
import { searchValue } from "../../api/searches";
import { useMayRead } from "../../hooks/use-session";
import { words } from "../../words";
import { instantText } from "../../words/format";
import styles from "./schedules.module.css";

/** The search that finds the jobs of a schedule. */
export const runsSearch = (name: string): string => `ref.schedule:${searchValue(name)}`;

/** The last jobs of a schedule, the newest first; undefined while they load or when the caller may not read jobs. */
export function useLastRuns(name: string, most: number): Job[] | undefined {
  const mayRead = useMayRead();
  const runs = useInfiniteQuery({
    ...jobQueries.list({ q: runsSearch(name), limit: most }),
    enabled: mayRead("jobs:read"),
    refetchInterval: 15_000,
  });
  return runs.data?.pages[0]?.items;
}

/** The last runs as small bars in the colours of their states, the newest at the right. */
export function RunStrip({ name }: { name: string }) {
  const jobs = useLastRuns(name, 12) ?? [];
  if (jobs.length === 0) return <span className={styles.faint}>{words.none}</span>;
  const label = jobs.map((job) => words.states[job.state]).join(", ");
  return (
    <span className={styles.strip} role="img" aria-label={`${words.schedules.lastRunsOf(name)}: ${label}`}>
      {[...jobs].reverse().map((job) => (
        <span
          key={job.id}
          className={styles[job.state]}
          title={`${words.states[job.state]}, ${instantText(job.created_at)}`}
        />
      ))}
    </span>
  );
}

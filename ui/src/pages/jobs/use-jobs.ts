import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Job } from "../../api/client";
import { jobQueries, type JobsSearch, readJobs } from "../../api/jobs";
import { useJobChanges, useLive } from "../../live/use-live";
import type { ChangedJob } from "../../live/messages";
import { mayMatch } from "./search-terms";

/** Running jobs of the list whose progress is read again. */
const FOLLOWED = 30;
const PROGRESS_EVERY = 2500;

/**
 * The jobs of a search. Rows change in place and never move: jobs that came or began to match since the list was read
 * are counted, and `refresh` brings them.
 */
export function useJobs(search: JobsSearch) {
  const client = useQueryClient();
  const options = jobQueries.list(search);
  const query = useInfiniteQuery({ ...options, staleTime: Infinity });
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data]);
  const known = useRef<ReadonlySet<string>>(new Set());
  useEffect(() => {
    known.current = new Set(rows.map((job) => job.id));
  }, [rows]);

  const [arrived, setArrived] = useState<ReadonlySet<string>>(new Set());
  const [arrivedFor, setArrivedFor] = useState(search.q);
  if (arrivedFor !== search.q) {
    setArrivedFor(search.q);
    setArrived(new Set());
  }
  useJobChanges(
    useCallback(
      (changes: readonly ChangedJob[]) => {
        const fresh = changes.filter((change) => !known.current.has(change.id) && mayMatch(search.q, change));
        if (fresh.length > 0) setArrived((before) => new Set([...before, ...fresh.map((change) => change.id)]));
      },
      [search.q],
    ),
  );
  const refresh = useCallback(() => {
    setArrived(new Set());
    // Back to the first page: the pages behind it are read again when they come near.
    client.setQueryData(
      options.queryKey,
      (data) => data && { pages: data.pages.slice(0, 1), pageParams: data.pageParams.slice(0, 1) },
    );
    void client.invalidateQueries({ queryKey: options.queryKey });
    // The key is new at every render, with the same content as long as the search is the same.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [client, search.q, search.sort]);
  return { query, rows: useWithProgress(rows), first: query.data?.pages[0], arrived: arrived.size, refresh };
}

/** The rows, with the newest progress of those that run. */
function useWithProgress(rows: readonly Job[]): readonly Job[] {
  const live = useLive();
  const ids = rows
    .filter((job) => job.state === "running")
    .slice(0, FOLLOWED)
    .map((job) => job.id);
  const fresh = useQuery({
    queryKey: ["jobs", "progress", ids],
    queryFn: () => readJobs({ q: `id:${ids.join(",")}`, limit: FOLLOWED }),
    enabled: ids.length > 0 && live.status !== "paused",
    refetchInterval: PROGRESS_EVERY,
    placeholderData: (before) => before,
  });
  return useMemo(() => {
    const progress = new Map(fresh.data?.items.map((job) => [job.id, job.progress]));
    return rows.map((job) => {
      const newest = job.state === "running" ? progress.get(job.id) : undefined;
      return newest ? { ...job, progress: newest } : job;
    });
  }, [fresh.data, rows]);
}

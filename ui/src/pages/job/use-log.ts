import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { type LogLine, readLogs } from "../../api/jobs";

export interface Log {
  lines: LogLine[];
  /** Behind the last line; null: there is none. */
  cursor: string | null;
}

/** Lines that are kept: the browser stays quick, and the API has the rest. */
export const MOST_LINES = 5000;
const PAGE = 200;
const EVERY = 1500;

/** The log read so far and the lines that a page adds to it. */
export function withPage(log: Log, page: { items: LogLine[]; next_cursor: string | null }): Log {
  if (page.items.length === 0) return log;
  return { lines: [...log.lines, ...page.items].slice(-MOST_LINES), cursor: page.next_cursor ?? log.cursor };
}

/** The lines of a job, with new ones while it runs. */
export function useLog(id: string, running: boolean, follow: boolean) {
  const client = useQueryClient();
  const queryKey = ["jobs", "log", id];
  const query = useQuery({
    queryKey,
    queryFn: async ({ signal }) => {
      let log = client.getQueryData<Log>(queryKey) ?? { lines: [], cursor: null };
      for (;;) {
        const page = await readLogs(id, log.cursor, signal);
        log = withPage(log, page);
        if (page.items.length < PAGE) return log;
      }
    },
    refetchInterval: running && follow ? EVERY : false,
  });
  const { refetch } = query;
  useEffect(() => {
    // The last lines are written with the end of the attempt.
    if (!running) void refetch();
  }, [running, refetch]);
  return query;
}

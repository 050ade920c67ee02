import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { bodyOf, client, type Job } from "./client";
import { type JobsPage, readJobs } from "./jobs";

export const approvalQueries = {
  pending: (q: string) =>
    infiniteQueryOptions({
      queryKey: ["approvals", "pending", q],
      queryFn: ({ pageParam, signal }) =>
        bodyOf(
          client.GET("/api/v1/approvals", {
            params: { query: { q, limit: 100, ...(pageParam ? { cursor: pageParam } : {}) } },
            signal,
          }),
        ),
      initialPageParam: null as string | null,
      getNextPageParam: (page: JobsPage) => page.next_cursor,
    }),
  /** The last job of the same kind that completed; null: there is none. */
  lastRun: (job: Job, kindTerm: string) =>
    queryOptions({
      queryKey: ["approvals", "last-run", job.id],
      queryFn: async () => {
        const page = await readJobs({
          q: `${kindTerm} state:completed,completed_with_errors`,
          sort: "newest",
          limit: 2,
        });
        return page.items.find((each) => each.id !== job.id) ?? null;
      },
      staleTime: 60_000,
    }),
};

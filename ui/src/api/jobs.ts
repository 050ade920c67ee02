import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { explainBatch } from "./explain-batch";
import { bodyOf, client, type Job, type Schema, versionedBodyOf } from "./client";

export type JobsPage = Schema["JobsAnswer"];
export type JobChange = Schema["JobChange"];
export type BulkOrder = Schema["BulkOrder"];
export type Operation = Schema["OperationAnswer"];
export type Explanation = Schema["ExplanationAnswer"];

/** States of a job that no worker has. */
export const WAITING: readonly Job["state"][] = ["pending", "blocked", "queued"];

export interface JobsSearch {
  q: string;
  sort?: "newest" | "oldest";
  /** Jobs per page, 1 to 200. */
  limit?: number;
}

/** Keys begin with "jobs": live changes patch every page under ["jobs", "list"] and every job under ["jobs", "one"]. */
export const jobQueries = {
  list: ({ q, sort, limit = 100 }: JobsSearch) =>
    infiniteQueryOptions({
      queryKey: ["jobs", "list", { q, sort, limit }],
      queryFn: ({ pageParam, signal }) =>
        bodyOf(
          client.GET("/api/v1/jobs", {
            params: {
              query: { q, limit, ...(sort ? { sort } : {}), ...(pageParam ? { cursor: pageParam } : {}) },
            },
            signal,
          }),
        ),
      initialPageParam: null as string | null,
      getNextPageParam: (page: JobsPage) => page.next_cursor,
    }),
  one: (id: string) =>
    queryOptions({
      queryKey: ["jobs", "one", id],
      queryFn: ({ signal }) =>
        versionedBodyOf(client.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } }, signal })),
    }),
  attempts: (id: string) =>
    queryOptions({
      queryKey: ["jobs", "attempts", id],
      queryFn: ({ signal }) =>
        bodyOf(client.GET("/api/v1/jobs/{job_id}/attempts", { params: { path: { job_id: id } }, signal })),
    }),
  explain: (id: string) =>
    queryOptions({
      queryKey: ["jobs", "explain", id],
      queryFn: ({ signal }) =>
        bodyOf(client.GET("/api/v1/jobs/{job_id}/explain", { params: { path: { job_id: id } }, signal })),
    }),
  /** As explain(), for a row of a list: the rows on screen are read with one request, again when a state changes. */
  why: (id: string, state: Job["state"]) =>
    queryOptions({ queryKey: ["jobs", "why", id, state], queryFn: () => explainTogether(id) }),
};

const explainTogether = explainBatch(async (ids) => {
  const found = await bodyOf(client.GET("/api/v1/explanations", { params: { query: { id: [...ids] } } }));
  return found.items;
});

export type Attempts = Schema["AttemptsAnswer"];
export type Attempt = Schema["AttemptAnswer"];
export type LogLine = Schema["LogLineAnswer"];
export type JobItem = Schema["ItemAnswer"];
export type Relative = Schema["RelativeAnswer"];
export type ItemState = Schema["ItemState"];

/** Parts of one job that are read when their section is opened. */
export const jobPartQueries = {
  approval: (id: string) =>
    queryOptions({
      queryKey: ["jobs", "approval", id],
      queryFn: ({ signal }) =>
        bodyOf(client.GET("/api/v1/jobs/{job_id}/approval", { params: { path: { job_id: id } }, signal })),
    }),
  relatives: (id: string) =>
    queryOptions({
      queryKey: ["jobs", "relatives", id],
      queryFn: ({ signal }) =>
        bodyOf(client.GET("/api/v1/jobs/{job_id}/relatives", { params: { path: { job_id: id } }, signal })),
    }),
  items: (id: string, state: ItemState | null) =>
    infiniteQueryOptions({
      queryKey: ["jobs", "items", id, state],
      queryFn: ({ pageParam, signal }) =>
        bodyOf(
          client.GET("/api/v1/jobs/{job_id}/items", {
            params: {
              path: { job_id: id },
              query: { limit: 100, ...(state ? { state: [state] } : {}), ...(pageParam ? { cursor: pageParam } : {}) },
            },
            signal,
          }),
        ),
      initialPageParam: null as string | null,
      getNextPageParam: (page: Schema["ItemsAnswer"]) => page.next_cursor,
    }),
};

/** Lines after the cursor; null: from the first. The answer's cursor stands behind its last line, also for lines to come. */
export const readLogs = (id: string, cursor: string | null, signal?: AbortSignal): Promise<Schema["LogsAnswer"]> =>
  bodyOf(
    client.GET("/api/v1/jobs/{job_id}/logs", {
      params: { path: { job_id: id }, query: { limit: 200, ...(cursor ? { cursor } : {}) } },
      ...(signal && { signal }),
    }),
  );

export interface Note {
  note?: string | null;
}

export const approveJob = (id: string, body: Note = {}): Promise<Job> =>
  bodyOf(client.POST("/api/v1/jobs/{job_id}/approve", { params: { path: { job_id: id } }, body }));

export const rejectJob = (id: string, body: Note = {}): Promise<Job> =>
  bodyOf(client.POST("/api/v1/jobs/{job_id}/reject", { params: { path: { job_id: id } }, body }));

/** stop: end a running job at once and refuse its late result, instead of asking it to end. */
export const cancelJob = (id: string, body: Note & { stop?: boolean } = {}): Promise<Job> =>
  bodyOf(
    client.POST("/api/v1/jobs/{job_id}/cancel", {
      params: { path: { job_id: id } },
      body: { stop: false, ...body },
    }),
  );

export const retryJob = (id: string, body: Note = {}): Promise<Job> =>
  bodyOf(client.POST("/api/v1/jobs/{job_id}/retry", { params: { path: { job_id: id } }, body }));

export const cloneJob = (id: string): Promise<Job> =>
  bodyOf(client.POST("/api/v1/jobs/{job_id}/clone", { params: { path: { job_id: id } } }));

export const deleteJob = (id: string): Promise<Job> =>
  bodyOf(client.DELETE("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } } }));

export const changeJob = (id: string, etag: string, body: JobChange): Promise<Job> =>
  bodyOf(
    client.PATCH("/api/v1/jobs/{job_id}", { params: { path: { job_id: id }, header: { "if-match": etag } }, body }),
  );

export const orderJobs = (body: BulkOrder): Promise<Operation> => bodyOf(client.POST("/api/v1/jobs/bulk", { body }));

/** A bulk order under way, or what came of it. */
export const operationQueries = {
  one: (id: string) =>
    queryOptions({
      queryKey: ["operations", "one", id],
      queryFn: ({ signal }) =>
        bodyOf(
          client.GET("/api/v1/operations/{operation_id}", { params: { path: { operation_id: Number(id) } }, signal }),
        ),
    }),
};

export const stopOperation = (id: string): Promise<Operation> =>
  bodyOf(client.POST("/api/v1/operations/{operation_id}/cancel", { params: { path: { operation_id: Number(id) } } }));

/** Jobs of one page, for an export or for rows whose progress is followed. */
export const readJobs = (search: JobsSearch, cursor: string | null = null): Promise<JobsPage> =>
  bodyOf(client.GET("/api/v1/jobs", { params: { query: { ...search, ...(cursor ? { cursor } : {}) } } }));

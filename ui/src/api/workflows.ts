import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { bodyOf, client, type Schema } from "./client";

export type Workflow = Schema["WorkflowAnswer"];
export type WorkflowGraph = Schema["GraphAnswer"];
export type WorkflowNode = Schema["NodeAnswer"];
export type WorkflowEdge = Schema["EdgeAnswer"];
export type WorkflowState = Schema["WorkflowState"];
type WorkflowsPage = Schema["WorkflowsAnswer"];

export interface WorkflowsSearch {
  state?: WorkflowState[];
  name?: string;
}

export const workflowQueries = {
  list: (search: WorkflowsSearch) =>
    infiniteQueryOptions({
      queryKey: ["workflows", "list", search],
      queryFn: ({ pageParam, signal }) =>
        bodyOf(
          client.GET("/api/v1/workflows", {
            params: { query: { ...search, limit: 100, ...(pageParam ? { cursor: pageParam } : {}) } },
            signal,
          }),
        ),
      initialPageParam: null as string | null,
      getNextPageParam: (page: WorkflowsPage) => page.next_cursor,
    }),
  one: (id: string) =>
    queryOptions({
      queryKey: ["workflows", "one", id],
      queryFn: ({ signal }) =>
        bodyOf(client.GET("/api/v1/workflows/{workflow_id}", { params: { path: { workflow_id: id } }, signal })),
    }),
};

export const cancelWorkflow = (id: string, note?: string): Promise<WorkflowGraph> =>
  bodyOf(
    client.POST("/api/v1/workflows/{workflow_id}/cancel", {
      params: { path: { workflow_id: id } },
      body: { note: note ?? null },
    }),
  );

/** fromStep: this step and those behind it run again; without it, the steps that did not succeed. */
export const retryWorkflow = (id: string, fromStep: string | null): Promise<WorkflowGraph> =>
  bodyOf(
    client.POST("/api/v1/workflows/{workflow_id}/retry", {
      params: { path: { workflow_id: id } },
      body: { from_step: fromStep },
    }),
  );

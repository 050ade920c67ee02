import { queryOptions } from "@tanstack/react-query";
import { bodyOf, client, type Schema } from "./client";

export type Worker = Schema["WorkerAnswer"];
export type BusyWorker = Schema["BusyWorkerAnswer"];
export type WorkersStatus = Schema["StatusAnswer"];

export const workerQueries = {
  status: () =>
    queryOptions({
      queryKey: ["workers", "status"],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/admin/workers/status", { signal })),
    }),
};

export const drainWorker = (worker: string) =>
  bodyOf(client.POST("/api/v1/admin/workers/{worker}/drain", { params: { path: { worker } } }));

export const forgetWorker = (worker: string) =>
  bodyOf(client.POST("/api/v1/admin/workers/{worker}/forget", { params: { path: { worker } } }));

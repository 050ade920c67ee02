import { queryOptions } from "@tanstack/react-query";
import { bodyOf, client, type Schema, versionedBodyOf } from "./client";

export type Lane = Schema["LaneAnswer"];
export type LaneLoad = Schema["LaneLoadAnswer"];
export type LaneChange = Schema["LaneChange"];
export type NewLane = Schema["NewLane"];

export const laneQueries = {
  list: () =>
    queryOptions({
      queryKey: ["lanes", "list"],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/admin/workers/lanes", { signal })),
    }),
  one: (name: string) =>
    queryOptions({
      queryKey: ["lanes", "one", name],
      queryFn: ({ signal }) =>
        versionedBodyOf(client.GET("/api/v1/admin/workers/lanes/{name}", { params: { path: { name } }, signal })),
    }),
};

export const createLane = (body: NewLane): Promise<Lane> =>
  bodyOf(client.POST("/api/v1/admin/workers/lanes", { body }));

export const changeLane = (name: string, etag: string, body: LaneChange): Promise<Lane> =>
  bodyOf(
    client.PATCH("/api/v1/admin/workers/lanes/{name}", {
      params: { path: { name }, header: { "if-match": etag } },
      body,
    }),
  );

/** pause drains: running jobs go on, nothing more starts. */
export type LaneOrder = "pause" | "resume";

export function orderLane(name: string, order: LaneOrder): Promise<Lane> {
  const at = { params: { path: { name } } };
  switch (order) {
    case "pause":
      return bodyOf(client.POST("/api/v1/admin/workers/lanes/{name}/pause", at));
    case "resume":
      return bodyOf(client.POST("/api/v1/admin/workers/lanes/{name}/resume", at));
  }
}

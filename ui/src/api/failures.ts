import { queryOptions } from "@tanstack/react-query";
import { bodyOf, client, type Schema } from "./client";
import type { Window } from "./stats";

export type FailureGroup = Schema["FailureGroupAnswer"];
export type FailureGroupDetail = Schema["FailureGroupDetailAnswer"];

export interface FailureSearch {
  window: Window;
  state: "open" | "muted" | null;
  sort: "recent" | "count" | "new";
  kind: string;
}

export const failureQueries = {
  groups: ({ window, state, sort, kind }: FailureSearch) =>
    queryOptions({
      queryKey: ["failures", "list", window, state, sort, kind],
      queryFn: ({ signal }) =>
        bodyOf(
          client.GET("/api/v1/failures", {
            params: { query: { window, sort, limit: 200, ...(state && { state }), ...(kind && { kind }) } },
            signal,
          }),
        ),
    }),
  one: (fingerprint: string, window: Window) =>
    queryOptions({
      queryKey: ["failures", "one", fingerprint, window],
      queryFn: ({ signal }) =>
        bodyOf(
          client.GET("/api/v1/failures/{fingerprint}", {
            params: { path: { fingerprint }, query: { window } },
            signal,
          }),
        ),
    }),
};

export const muteFailure = (fingerprint: string, note: string | null): Promise<FailureGroup> =>
  bodyOf(client.POST("/api/v1/failures/{fingerprint}/mute", { params: { path: { fingerprint } }, body: { note } }));

export const unmuteFailure = (fingerprint: string, note: string | null): Promise<FailureGroup> =>
  bodyOf(client.POST("/api/v1/failures/{fingerprint}/unmute", { params: { path: { fingerprint } }, body: { note } }));

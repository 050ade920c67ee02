import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { bodyOf, client, type Schema } from "./client";

export type Gate = Schema["GateAnswer"];
export type GateChange = Schema["GateChange"];
export type Rate = Schema["RateAnswer"];
export type RateLimit = Schema["RateLimitBody"];
export type Lock = Schema["LockAnswer"];

const PAGE = 200;

/** A page of limits in the order of their keys; the last key is where the next page begins. */
function pageQuery(prefix: string, after: string) {
  return { limit: PAGE, ...(prefix ? { prefix } : {}), ...(after ? { after } : {}) };
}

const nextKey = ({ items }: { items: readonly { key: string }[] }): string | null =>
  items.length < PAGE ? null : (items.at(-1)?.key ?? null);

export const limitQueries = {
  gates: (prefix: string) =>
    infiniteQueryOptions({
      queryKey: ["limits", "gates", prefix],
      queryFn: ({ pageParam, signal }) =>
        bodyOf(client.GET("/api/v1/limits/gates", { params: { query: pageQuery(prefix, pageParam) }, signal })),
      initialPageParam: "",
      getNextPageParam: nextKey,
    }),
  gate: (key: string) =>
    queryOptions({
      queryKey: ["limits", "gate", key],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/limits/gates/{key}", { params: { path: { key } }, signal })),
    }),
  rates: (prefix: string) =>
    infiniteQueryOptions({
      queryKey: ["limits", "rates", prefix],
      queryFn: ({ pageParam, signal }) =>
        bodyOf(client.GET("/api/v1/limits/rates", { params: { query: pageQuery(prefix, pageParam) }, signal })),
      initialPageParam: "",
      getNextPageParam: nextKey,
    }),
  locks: () =>
    queryOptions({
      queryKey: ["locks"],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/locks", { signal })),
    }),
};

export const changeGate = (key: string, body: GateChange): Promise<Gate> =>
  bodyOf(client.PATCH("/api/v1/limits/gates/{key}", { params: { path: { key } }, body }));

export const deleteGate = (key: string): Promise<Gate> =>
  bodyOf(client.DELETE("/api/v1/limits/gates/{key}", { params: { path: { key } } }));

export const setRate = (key: string, body: RateLimit): Promise<Rate> =>
  bodyOf(client.PATCH("/api/v1/limits/rates/{key}", { params: { path: { key } }, body }));

/** lasting: a duration such as "10m"; null: until a person resumes it. */
export const pauseRate = (key: string, lasting: string | null): Promise<Rate> =>
  bodyOf(client.POST("/api/v1/limits/rates/{key}/pause", { params: { path: { key } }, body: { lasting } }));

export const resumeRate = (key: string): Promise<Rate> =>
  bodyOf(client.POST("/api/v1/limits/rates/{key}/resume", { params: { path: { key } } }));

export const resetRate = (key: string): Promise<Rate> =>
  bodyOf(client.POST("/api/v1/limits/rates/{key}/reset", { params: { path: { key } } }));

import { queryOptions } from "@tanstack/react-query";
import { bodyOf, client, type Schema } from "./client";

export type Gate = Schema["GateAnswer"];
export type GateChange = Schema["GateChange"];
export type Rate = Schema["RateAnswer"];
export type RateLimit = Schema["RateLimitBody"];
export type Lock = Schema["LockAnswer"];

/** after: the last key of the page before; "" for the first page. */
export interface KeySearch {
  prefix: string;
  after: string;
}

const searched = ({ prefix, after }: KeySearch) => ({
  limit: 200,
  ...(prefix ? { prefix } : {}),
  ...(after ? { after } : {}),
});

export const limitQueries = {
  gates: (search: KeySearch) =>
    queryOptions({
      queryKey: ["limits", "gates", search],
      queryFn: ({ signal }) =>
        bodyOf(client.GET("/api/v1/limits/gates", { params: { query: searched(search) }, signal })),
    }),
  gate: (key: string) =>
    queryOptions({
      queryKey: ["limits", "gate", key],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/limits/gates/{key}", { params: { path: { key } }, signal })),
    }),
  rates: (search: KeySearch) =>
    queryOptions({
      queryKey: ["limits", "rates", search],
      queryFn: ({ signal }) =>
        bodyOf(client.GET("/api/v1/limits/rates", { params: { query: searched(search) }, signal })),
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

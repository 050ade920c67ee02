import { queryOptions } from "@tanstack/react-query";
import { bodyOf, client, type Schema } from "./client";

export type Overview = Schema["OverviewAnswer"];
export type SeriesList = Schema["SeriesListAnswer"];
export type Series = Schema["CountSeriesAnswer"];
export type Point = Schema["PointAnswer"];

/** Windows that charts offer, as the API reads them. */
export const WINDOWS = ["1h", "24h", "7d"] as const;
export type Window = (typeof WINDOWS)[number];

export interface SeriesChoice {
  window: Window | "31d";
  by?: "kind" | "lane";
  kind?: string;
  lane?: string;
}

export const statsQueries = {
  overview: (window: Window) =>
    queryOptions({
      queryKey: ["stats", "overview", window],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/stats/overview", { params: { query: { window } }, signal })),
    }),
  series: (choice: SeriesChoice) =>
    queryOptions({
      queryKey: ["stats", "series", choice],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/stats/series", { params: { query: choice }, signal })),
    }),
  backlog: () =>
    queryOptions({
      queryKey: ["stats", "backlog"],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/stats/backlog", { signal })),
    }),
  failures: (window: Window) =>
    queryOptions({
      queryKey: ["stats", "failures", window],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/stats/failures", { params: { query: { window } }, signal })),
    }),
  slow: (longerThan: string, limit: number) =>
    queryOptions({
      queryKey: ["stats", "slow", longerThan, limit],
      queryFn: ({ signal }) =>
        bodyOf(client.GET("/api/v1/stats/slow", { params: { query: { longer_than: longerThan, limit } }, signal })),
    }),
};

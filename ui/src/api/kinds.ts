import { queryOptions } from "@tanstack/react-query";
import { bodyOf, client, type Schema } from "./client";

export type Kind = Schema["KindAnswer"];
export type Submission = Schema["Submission"];
export type Submitted = Schema["SubmittedAnswer"];

export const kindQueries = {
  list: () =>
    queryOptions({
      queryKey: ["kinds", "list"],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/kinds", { signal })),
      staleTime: 60_000,
    }),
  schema: (kind: string) =>
    queryOptions({
      queryKey: ["kinds", "schema", kind],
      queryFn: ({ signal }) =>
        bodyOf(client.GET("/api/v1/kinds/{kind}/schema", { params: { path: { kind } }, signal })),
      staleTime: 60_000,
    }),
};

export const submitJob = (body: Submission): Promise<Submitted> => bodyOf(client.POST("/api/v1/jobs", { body }));

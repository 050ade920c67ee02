import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { bodyOf, client, type Schema } from "./client";
import { ApiProblem, problemOf } from "./problem";
import type { paths } from "./schema.gen";

export type SystemStatus = Schema["SystemAnswer"];
export type Doctor = Schema["DoctorAnswer"];
export type Finding = Schema["FindingAnswer"];
export type Deploy = Schema["DeploysAnswer"]["items"][number];
export type Change = Schema["ChangeAnswer"];
export type Role = Schema["RoleAnswer"];
export type Token = Schema["TokenAnswer"];
export type NewToken = Schema["NewToken"];
export type NewTokenAnswer = Schema["NewTokenAnswer"];
export type RetentionRule = Schema["RetentionAnswer"];
export type AuditEntry = Schema["AuditEntryAnswer"];
export type Readiness = Schema["ReadyAnswer"];
export type DeployReadiness = paths["/readyz/deploy"]["get"]["responses"][200]["content"]["application/json"];
type AuditPage = Schema["AuditAnswer"];

export interface AuditSearch {
  target?: string;
  subject?: string;
  action?: string;
}

/** A stretch of time; instants as the API writes them. */
export interface TimeRange {
  from: string;
  to: string;
}

/** Milliseconds after which nothing is added to a stretch of time. */
const SETTLED_AFTER = 5 * 60_000;

/** A probe answers 503 with the same body when it is not ready: that is an answer too. */
async function probed<Data extends object>(
  answer: Promise<{ data?: Data; error?: unknown; response: Response }>,
  field: keyof Data,
): Promise<Data> {
  const { data, error, response } = await answer;
  if (data !== undefined) return data;
  if (typeof error === "object" && error !== null && field in error) return error as Data;
  throw new ApiProblem(response.status, problemOf(error));
}

export const systemQueries = {
  status: () =>
    queryOptions({
      queryKey: ["system", "status"],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/system", { signal })),
    }),
  doctor: () =>
    queryOptions({
      queryKey: ["system", "doctor"],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/system/doctor", { signal })),
    }),
  ready: () =>
    queryOptions({
      queryKey: ["system", "ready"],
      queryFn: ({ signal }) => probed<Readiness>(client.GET("/readyz", { signal }), "ready"),
    }),
  deployReady: () =>
    queryOptions({
      queryKey: ["system", "deploy-ready"],
      queryFn: ({ signal }) => probed<DeployReadiness>(client.GET("/readyz/deploy", { signal }), "safe"),
    }),
  deploys: (range: Partial<TimeRange>) =>
    queryOptions({
      queryKey: ["system", "deploys", range],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/deploys", { params: { query: range }, signal })),
    }),
  changes: (range: TimeRange) =>
    queryOptions({
      queryKey: ["system", "changes", range],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/changes", { params: { query: range }, signal })),
      // Failures are grouped a moment after they happen: what ended just now may still get an entry.
      refetchInterval: () => (Date.now() - Date.parse(range.to) < SETTLED_AFTER ? 5000 : false),
    }),
  tokens: () =>
    queryOptions({
      queryKey: ["system", "tokens"],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/tokens", { signal })),
    }),
  roles: () =>
    queryOptions({
      queryKey: ["system", "roles"],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/roles", { signal })),
    }),
  retention: () =>
    queryOptions({
      queryKey: ["system", "retention"],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/retention", { signal })),
    }),
  audit: (search: AuditSearch) =>
    infiniteQueryOptions({
      queryKey: ["system", "audit", search],
      queryFn: ({ pageParam, signal }) =>
        bodyOf(
          client.GET("/api/v1/audit", {
            params: { query: { ...search, limit: 100, ...(pageParam ? { cursor: pageParam } : {}) } },
            signal,
          }),
        ),
      initialPageParam: null as string | null,
      getNextPageParam: (page: AuditPage) => page.next_cursor,
    }),
};

export const createToken = (body: NewToken): Promise<NewTokenAnswer> => bodyOf(client.POST("/api/v1/tokens", { body }));

export const revokeToken = (id: string): Promise<Token> =>
  bodyOf(client.DELETE("/api/v1/tokens/{token_id}", { params: { path: { token_id: id } } }));

export const grantRole = (role: string, subject: string): Promise<Role> =>
  bodyOf(client.POST("/api/v1/roles/{role}/grants", { params: { path: { role } }, body: { subject } }));

export const revokeRole = (role: string, subject: string): Promise<Role> =>
  bodyOf(client.DELETE("/api/v1/roles/{role}/grants/{subject}", { params: { path: { role, subject } } }));

/** keep: seconds, or a text such as 30d. state: a final one, or * for all. */
export const setRetention = (kind: string, state: string, keep: string): Promise<RetentionRule> =>
  bodyOf(client.PATCH("/api/v1/retention/{kind}", { params: { path: { kind }, query: { state } }, body: { keep } }));

export const resetRetention = (kind: string, state: string): Promise<Schema["RetentionResetAnswer"]> =>
  bodyOf(client.DELETE("/api/v1/retention/{kind}", { params: { path: { kind }, query: { state } } }));

/** overlap: how long the old secret stays valid. */
export const rotateToken = (id: string, overlap: string): Promise<NewTokenAnswer> =>
  bodyOf(client.POST("/api/v1/tokens/{token_id}/rotate", { params: { path: { token_id: id } }, body: { overlap } }));

/** Checks the chain of seals over the whole audit, a stretch per request. */
export async function verifyAudit(): Promise<Schema["AuditCheckAnswer"]> {
  let lines = 0;
  let head: string | null = null;
  for (;;) {
    const query: { after?: string } = head === null ? {} : { after: head };
    const checked = await bodyOf(client.GET("/api/v1/audit/verify", { params: { query } }));
    lines += checked.lines;
    head = checked.head;
    if (!checked.more || checked.broken || head === null) return { ...checked, lines };
  }
}

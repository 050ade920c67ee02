import { queryOptions } from "@tanstack/react-query";
import { bodyOf, client, type Job, type Schema, versionedBodyOf } from "./client";

export type Schedule = Schema["ScheduleAnswer"];
export type ScheduleChange = Schema["ScheduleChange"];
export type NewSchedule = Schema["NewSchedule"];
export type Backfill = Schema["BackfillAnswer"];
export type BackfillRange = Schema["BackfillRange"];

export const scheduleQueries = {
  list: () =>
    queryOptions({
      queryKey: ["schedules", "list"],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/schedules", { signal })),
    }),
  one: (name: string) =>
    queryOptions({
      queryKey: ["schedules", "one", name],
      queryFn: ({ signal }) =>
        versionedBodyOf(client.GET("/api/v1/schedules/{name}", { params: { path: { name } }, signal })),
    }),
  next: (name: string, n: number) =>
    queryOptions({
      queryKey: ["schedules", "next", name, n],
      queryFn: ({ signal }) =>
        bodyOf(client.GET("/api/v1/schedules/{name}/next", { params: { path: { name }, query: { n } }, signal })),
    }),
};

export const changeSchedule = (name: string, etag: string, body: ScheduleChange): Promise<Schedule> =>
  bodyOf(client.PATCH("/api/v1/schedules/{name}", { params: { path: { name }, header: { "if-match": etag } }, body }));

export const createSchedule = (body: NewSchedule): Promise<Schedule> =>
  bodyOf(client.POST("/api/v1/schedules", { body }));

export const runSchedule = (name: string): Promise<Job> =>
  bodyOf(client.POST("/api/v1/schedules/{name}/run", { params: { path: { name } } }));

export const backfillSchedule = (name: string, body: BackfillRange): Promise<Backfill> =>
  bodyOf(client.POST("/api/v1/schedules/{name}/backfill", { params: { path: { name } }, body }));

export const deleteSchedule = (name: string): Promise<Schedule> =>
  bodyOf(client.DELETE("/api/v1/schedules/{name}", { params: { path: { name } } }));

export type ScheduleOrder = "pause" | "resume" | "reset";

export function orderSchedule(name: string, order: ScheduleOrder): Promise<Schedule> {
  const at = { params: { path: { name } } };
  switch (order) {
    case "pause":
      return bodyOf(client.POST("/api/v1/schedules/{name}/pause", at));
    case "resume":
      return bodyOf(client.POST("/api/v1/schedules/{name}/resume", at));
    case "reset":
      return bodyOf(client.POST("/api/v1/schedules/{name}/reset", at));
  }
}

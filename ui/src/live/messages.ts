import type { Schema } from "../api/client";

/** How the dashboard hears of changes. `paused` is a person's wish and hides the others. */
export type LiveStatus = "connecting" | "live" | "reconnecting" | "polling" | "paused";

/** An event of GET /events, as the patches read it. */
export type FeedMessage =
  | { event: "jobs"; data: Schema["FeedJobsData"] }
  | { event: "lanes"; data: Schema["FeedLanesData"] }
  | { event: "workers"; data: Schema["FeedWorkersData"] }
  | { event: "stats"; data: Schema["OverviewAnswer"] }
  | { event: "schedules"; data: unknown }
  | { event: "operations"; data: unknown }
  | { event: "resync"; data: Schema["FeedResyncData"] };

export type ChangedJob = Schema["ChangedJobData"];

/** What the tab with the connection tells the others, and what a new tab asks it. */
export type TabMessage =
  | { type: "feed"; message: FeedMessage }
  | { type: "status"; status: Exclude<LiveStatus, "paused"> }
  | { type: "hello" };

export const FEED_EVENTS = ["jobs", "lanes", "workers", "stats", "schedules", "operations", "resync"] as const;

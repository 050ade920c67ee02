import type { InfiniteData, QueryClient, QueryKey } from "@tanstack/react-query";
import type { Job, Versioned } from "../api/client";
import type { JobsPage } from "../api/jobs";
import type { LaneLoad } from "../api/lanes";
import type { Overview } from "../api/stats";
import type { ChangedJob, FeedMessage } from "./messages";

/** Changes of one frame. A job that changed twice is in it once, with the higher seq. */
export interface FrameChanges {
  jobs: Map<string, ChangedJob>;
  lanes: Map<string, LanePatch>;
  /** First parts of the keys of queries that must be read again. */
  stale: Set<string>;
  overview: Overview | null;
  /** Too much was missed: everything on screen is read again. */
  resync: boolean;
}

type LanePatch = Extract<FeedMessage, { event: "lanes" }>["data"]["items"][number];

/** More changed jobs than this between two frames, as after an hour in a hidden tab, are read again instead. */
const MOST_JOBS = 2000;

export function noChanges(): FrameChanges {
  return { jobs: new Map(), lanes: new Map(), stale: new Set(), overview: null, resync: false };
}

/** Adds a message to the changes of the frame. */
export function collect(changes: FrameChanges, message: FeedMessage): void {
  switch (message.event) {
    case "jobs":
      for (const change of message.data.changes) {
        const known = changes.jobs.get(change.id);
        if (!known || known.seq <= change.seq) changes.jobs.set(change.id, change);
      }
      if (changes.jobs.size > MOST_JOBS) {
        changes.jobs.clear();
        changes.resync = true;
      }
      return;
    case "lanes":
      for (const lane of message.data.items) changes.lanes.set(lane.name, lane);
      return;
    case "workers":
    case "schedules":
    case "operations":
      changes.stale.add(message.event);
      return;
    case "stats":
      changes.overview = message.data;
      return;
    case "resync":
      changes.resync = true;
  }
}

/** The job with what the feed says about it; the same object when nothing differs, so that its row is not drawn again. */
export function patchedJob(job: Job, change: ChangedJob | undefined): Job {
  if (!change) return job;
  const { state, attempt, priority, lane, run_after, claimed_at, finished_at } = change;
  const same =
    job.state === state &&
    job.attempt === attempt &&
    job.priority === priority &&
    job.run_after === run_after &&
    job.claimed_at === claimed_at &&
    job.finished_at === finished_at;
  if (same) return job;
  const progress = state === "running" ? job.progress : null;
  return { ...job, state, attempt, priority, lane: lane ?? job.lane, run_after, claimed_at, finished_at, progress };
}

export function patchedPages(
  pages: InfiniteData<JobsPage> | undefined,
  jobs: ReadonlyMap<string, ChangedJob>,
): InfiniteData<JobsPage> | undefined {
  if (!pages) return pages;
  const after = pages.pages.map((page) => {
    const items = page.items.map((job) => patchedJob(job, jobs.get(job.id)));
    return items.every((job, index) => job === page.items[index]) ? page : { ...page, items };
  });
  return after.every((page, index) => page === pages.pages[index]) ? pages : { ...pages, pages: after };
}

function patchJobs(client: QueryClient, jobs: FrameChanges["jobs"]): QueryKey[] {
  if (jobs.size === 0) return [];
  client.setQueriesData<InfiniteData<JobsPage>>({ queryKey: ["jobs", "list"] }, (pages) => patchedPages(pages, jobs));
  const shown = [...jobs.values()].filter(
    (change) => client.getQueryData<Versioned<Job>>(["jobs", "one", change.id]) !== undefined,
  );
  // The feed has no result, errors or progress: a job on screen is read again.
  return shown.flatMap(({ id }) => ["one", "attempts", "explain"].map((part) => ["jobs", part, id]));
}

function patchLanes(client: QueryClient, lanes: FrameChanges["lanes"]): void {
  if (lanes.size === 0) return;
  client.setQueryData<{ items: LaneLoad[] }>(
    ["lanes", "list"],
    (list) => list && { ...list, items: list.items.map((lane) => ({ ...lane, ...lanes.get(lane.name) })) },
  );
}

/** Writes the changes of a frame into the cache, and says which queries must be read again. */
export function applyChanges(client: QueryClient, changes: FrameChanges): QueryKey[] {
  const stale = patchJobs(client, changes.jobs);
  patchLanes(client, changes.lanes);
  const { overview } = changes;
  if (overview) {
    client.setQueryData(["stats", "overview", "1h"], overview);
    client.setQueryData<{ items: LaneLoad[] }>(["lanes", "list"], (list) => list && { ...list, items: overview.lanes });
  }
  if (changes.lanes.size > 0) stale.push(["lanes", "one"]);
  for (const subject of changes.stale) stale.push([subject]);
  return changes.resync ? [[]] : stale;
}

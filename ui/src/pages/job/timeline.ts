import type { Job, Schema, State } from "../../api/client";

export type Attempt = Schema["AttemptAnswer"];
export type Act = Schema["ActAnswer"];

/** A moment in a job's life. `attempt` events lie on the branch of that attempt. */
export interface Moment {
  at: string;
  type: "created" | "due" | "started" | "attempt-ended" | "act" | "ended" | "now";
  attempt?: number | null;
  worker?: string | null;
  outcome?: string;
  verb?: string;
  by?: string | null;
  note?: string | null;
  state?: State;
  /** Seconds since the moment before, and what the job did meanwhile. */
  since?: { seconds: number; doing: "waiting" | "running" };
}

const seconds = (from: string, to: string): number => Math.max(0, (Date.parse(to) - Date.parse(from)) / 1000);

/** Ties are told in the order of a life. */
const RANK: Record<Moment["type"], number> = {
  created: 0,
  act: 1,
  due: 2,
  started: 3,
  "attempt-ended": 4,
  ended: 5,
  now: 6,
};

function momentsOf(job: Job, attempts: readonly Attempt[], acts: readonly Act[]): Moment[] {
  const moments: Moment[] = [{ at: job.created_at, type: "created" }];
  for (const { at, verb, by, note } of acts) moments.push({ at, type: "act", verb, by, note });
  for (const each of attempts) {
    const { attempt, worker } = each;
    if (each.started_at) moments.push({ at: each.started_at, type: "started", attempt, worker });
    moments.push({ at: each.ended_at, type: "attempt-ended", attempt, outcome: each.outcome });
  }
  const told = attempts.some((each) => each.started_at === job.claimed_at);
  if (job.claimed_at && !told && (job.state === "running" || job.finished_at))
    moments.push({ at: job.claimed_at, type: "started", attempt: job.attempt, worker: job.worker });
  if (job.finished_at) moments.push({ at: job.finished_at, type: "ended", state: job.state });
  return moments;
}

/** The life of a job in order, with what passed between two moments. now: milliseconds, for a job that has not ended. */
export function timelineOf(job: Job, attempts: readonly Attempt[], acts: readonly Act[], now: number): Moment[] {
  const moments = momentsOf(job, attempts, acts);
  if (!job.finished_at) {
    const present = new Date(now).toISOString();
    if (job.state !== "running" && Date.parse(job.run_after) > now) moments.push({ at: job.run_after, type: "due" });
    moments.push({ at: present, type: "now", state: job.state });
  }
  moments.sort((a, b) => Date.parse(a.at) - Date.parse(b.at) || RANK[a.type] - RANK[b.type]);
  let running = false;
  return moments.map((moment, index) => {
    const before = moments[index - 1];
    const doing = running ? ("running" as const) : ("waiting" as const);
    if (moment.type === "started") running = true;
    if (moment.type === "attempt-ended" || moment.type === "ended") running = false;
    return before ? { ...moment, since: { seconds: seconds(before.at, moment.at), doing } } : moment;
  });
}

/** Seconds that the job waited and ran, over all attempts. */
export function sharesOf(moments: readonly Moment[]): { waited: number; ran: number } {
  let waited = 0;
  let ran = 0;
  for (const { type, since } of moments) {
    if (!since || type === "due") continue;
    if (since.doing === "running") ran += since.seconds;
    else waited += since.seconds;
  }
  return { waited, ran };
}

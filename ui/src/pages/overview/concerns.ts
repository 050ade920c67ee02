import type { Schema } from "../../api/client";
import type { LaneLoad } from "../../api/lanes";
import type { Schedule } from "../../api/schedules";
import { jobHref, jobsHref, laneHref, scheduleHref, searchValue } from "../../api/searches";
import type { Overview } from "../../api/stats";
import { words } from "../../words";
import { countText, durationText, numberText, percentText } from "../../words/format";

export interface Concern {
  key: string;
  /** danger: something is lost or stands still; warn: it will, if nobody looks; plain: a person's turn. */
  tone: "danger" | "warn" | "plain";
  text: string;
  /** What to do, in a sentence. */
  why: string;
  href: string;
}

export interface ConcernSources {
  overview: Overview;
  failures: Schema["KindFailuresAnswer"]["items"];
  slow: Schema["RunningAnswer"][];
  unserved: Schema["BacklogAnswer"][];
  schedules: Schedule[];
}

const text = words.overview;
/** Seconds that a due job may wait before its lane is a concern. */
const LONG_WAIT = 60;
/** Kinds with fewer failures than this are no concern unless most of their jobs fail. */
const MANY_FAILURES = 5;
const MOST_OF_A_SORT = 3;
const TONES = ["danger", "warn", "plain"];

function laneConcern(lane: LaneLoad): Concern | null {
  const due = countText(lane.due);
  const at = { key: `lane ${lane.name}`, href: laneHref(lane.name) };
  if (lane.due.value === 0) return null;
  if (!lane.enabled) return { ...at, tone: "warn", text: text.pausedLane(lane.name, due), why: text.pausedLaneWhy };
  if (lane.workers === 0)
    return { ...at, tone: "danger", text: text.emptyLane(lane.name, due), why: text.emptyLaneWhy };
  if ((lane.oldest_wait ?? 0) < LONG_WAIT) return null;
  const span = durationText(lane.oldest_wait ?? 0);
  return { ...at, tone: "warn", text: text.slowLane(lane.name, span), why: text.slowLaneWhy };
}

function workerConcerns({ workers }: Overview): Concern[] {
  return workers.flatMap((worker): Concern[] => {
    if (worker.state === "stopped") return [];
    const at = { key: `worker ${worker.id}`, href: `/workers?q=${encodeURIComponent(worker.name)}` };
    if (worker.silent)
      return [{ ...at, tone: "danger", text: text.silentWorker(worker.name), why: text.silentWorkerWhy }];
    if (worker.stuck === 0) return [];
    const slots = numberText(worker.stuck);
    return [{ ...at, tone: "danger", text: text.stuckWorker(worker.name, slots), why: text.stuckWorkerWhy }];
  });
}

function failureConcerns(failures: ConcernSources["failures"]): Concern[] {
  return failures
    .filter(({ failed, rate }) => failed.value >= MANY_FAILURES || (failed.value > 0 && rate >= 0.5))
    .sort((one, other) => other.failed.value - one.failed.value)
    .map(({ kind, failed, rate, last_error }) => {
      const message = last_error?.message;
      return {
        key: `kind ${kind}`,
        tone: rate >= 0.2 ? "danger" : "warn",
        text: text.failingKind(kind, countText(failed), percentText(rate)),
        why: typeof message === "string" ? message : "",
        // Its causes: from there all jobs of one are retried at once.
        href: `/failures?kind=${encodeURIComponent(kind)}`,
      };
    });
}

/** What a person should look at, the worst first; of each sort only a few. */
export function concernsOf({ overview, failures, slow, unserved, schedules }: ConcernSources): Concern[] {
  const pending = overview.states.pending;
  const sorts: Concern[][] = [
    workerConcerns(overview),
    unserved.map(({ kind, due }) => ({
      key: `unserved ${kind}`,
      tone: "danger",
      text: text.unserved(kind, countText(due)),
      why: text.unservedWhy,
      href: jobsHref(`state:queued kind:${searchValue(kind)}`),
    })),
    overview.lanes.flatMap((lane) => laneConcern(lane) ?? []),
    failureConcerns(failures),
    slow.map(({ id, kind, running_for }) => ({
      key: `slow ${id}`,
      tone: "warn",
      text: text.longRunning(kind, durationText(running_for)),
      why: text.longRunningWhy,
      href: jobHref(id),
    })),
    schedules
      .filter(({ skipped_at, last_at, enabled }) => enabled && skipped_at && (!last_at || skipped_at > last_at))
      .map(({ name, skipped_why }) => ({
        key: `schedule ${name}`,
        tone: "warn",
        text: text.skipped(name),
        why: skipped_why ?? "",
        href: scheduleHref(name),
      })),
    pending && pending.value > 0
      ? [
          {
            key: "approvals",
            tone: "plain",
            text: text.approvals(countText(pending)),
            why: text.approvalsWhy,
            href: "/approvals",
          },
        ]
      : [],
  ];
  return sorts
    .flatMap((sort) => sort.slice(0, MOST_OF_A_SORT))
    .sort((one, other) => TONES.indexOf(one.tone) - TONES.indexOf(other.tone));
}

import { describe, expect, it } from "vitest";
import type { Job } from "../../api/client";
import { type Attempt, sharesOf, timelineOf } from "./timeline";

const at = (second: number): string => new Date(Date.UTC(2026, 10, 18, 10, 0, second)).toISOString();
const NOW = Date.parse(at(59));
const job = {
  created_at: at(0),
  run_after: at(10),
  claimed_at: at(20),
  finished_at: at(30),
  state: "failed",
  attempt: 2,
  worker: "w2",
} as Job;
const first: Attempt = { attempt: 1, worker: "w1", started_at: at(5), ended_at: at(8), outcome: "failed", error: null };

describe("timelineOf", () => {
  it("tells attempts, orders and the end in order, with what passed between", () => {
    const act = { at: at(2), verb: "approve", by: "ada", note: null };
    const told = timelineOf(job, [first], [act], NOW);
    expect(told.map((moment) => moment.type)).toEqual([
      "created",
      "act",
      "started",
      "attempt-ended",
      "started",
      "ended",
    ]);
    expect(told.map((moment) => moment.since?.doing)).toEqual([
      undefined,
      "waiting",
      "waiting",
      "running",
      "waiting",
      "running",
    ]);
    expect(sharesOf(told)).toEqual({ waited: 17, ran: 13 });
  });

  it("ends with now while the job lives, and shows when it is due", () => {
    const waiting = { ...job, claimed_at: null, finished_at: null, state: "queued", run_after: at(70) } as Job;
    expect(timelineOf(waiting, [], [], NOW).map((moment) => moment.type)).toEqual(["created", "now", "due"]);
  });

  it("does not tell the last attempt twice when it has a row of its own", () => {
    const last = { ...first, attempt: 2, started_at: at(20), ended_at: at(30) };
    const told = timelineOf(job, [first, last], [], NOW);
    expect(told.filter((moment) => moment.type === "started")).toHaveLength(2);
  });
});

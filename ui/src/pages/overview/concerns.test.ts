import { describe, expect, it } from "vitest";
import type { LaneLoad } from "../../api/lanes";
import type { Overview } from "../../api/stats";
import type { Worker } from "../../api/workers";
import { concernsOf, type ConcernSources } from "./concerns";

const lane = (more: Partial<LaneLoad>): LaneLoad =>
  ({ name: "mail", enabled: true, workers: 1, due: { value: 0, exact: true }, oldest_wait: null, ...more }) as LaneLoad;
const worker = (more: Partial<Worker>): Worker =>
  ({ id: "1", name: "web-1:7", state: "up", silent: false, stuck: 0, ...more }) as Worker;

function sources(overview: Partial<Overview>, more: Partial<ConcernSources> = {}): ConcernSources {
  return {
    overview: { states: {}, lanes: [], workers: [], ...overview } as Overview,
    failures: [],
    slow: [],
    unserved: [],
    schedules: [],
    ...more,
  };
}

describe("concerns", () => {
  it("are none on a calm day", () => {
    expect(concernsOf(sources({ lanes: [lane({})], workers: [worker({})] }))).toEqual([]);
  });

  it("put what stands still before what waits for a person", () => {
    const found = concernsOf(
      sources({
        states: { pending: { value: 2, exact: true } },
        lanes: [lane({ enabled: false, due: { value: 9, exact: true } })],
        workers: [worker({ silent: true })],
      }),
    );
    expect(found.map(({ key, tone }) => [key, tone])).toEqual([
      ["worker 1", "danger"],
      ["lane mail", "warn"],
      ["approvals", "plain"],
    ]);
  });

  it("ignore a paused lane in which nothing waits, and a stopped worker", () => {
    const found = concernsOf(
      sources({ lanes: [lane({ enabled: false })], workers: [worker({ state: "stopped", silent: true })] }),
    );
    expect(found).toEqual([]);
  });

  it("name a kind that fails often, with its last error", () => {
    const failing = {
      kind: "send mail",
      ended: { value: 10, exact: true },
      failed: { value: 6, exact: true },
      rate: 0.6,
      last_failed_at: null,
      last_failed_id: null,
      last_error: { message: "refused" },
    };
    const [found] = concernsOf(sources({}, { failures: [failing] }));
    expect(found).toMatchObject({ tone: "danger", why: "refused" });
    expect(decodeURIComponent(found?.href ?? "")).toBe("/failures?kind=send mail");
  });

  it("show at most three of a sort", () => {
    const lanes = ["a", "b", "c", "d"].map((name) => lane({ name, workers: 0, due: { value: 1, exact: true } }));
    expect(concernsOf(sources({ lanes }))).toHaveLength(3);
  });
});

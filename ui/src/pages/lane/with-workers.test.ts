import { expect, it } from "vitest";
import type { LaneLoad } from "../../api/lanes";
import type { BusyWorker } from "../../api/workers";
import { withWorkers } from "./with-workers";

const lane = { name: "mail", used: 0, total_slots: 20, workers: 2, running: 0 } as LaneLoad;
const worker = (used: number, ...lanes: string[]) =>
  ({
    slots: [
      { lane: "mail", used, slots: 10 },
      { lane: "other", used: 3, slots: 3 },
    ],
    jobs: lanes.map((name) => ({ lane: name })),
  }) as unknown as BusyWorker;

it("takes slots and running jobs from the workers, of this lane alone", () => {
  const load = withWorkers(lane, [worker(1, "mail", "other"), worker(0)]);
  expect(load).toMatchObject({ used: 1, total_slots: 20, workers: 2, running: 1 });
});

it("stays as it was read until the workers are known", () => {
  expect(withWorkers(lane, undefined)).toBe(lane);
});

import type { LaneLoad } from "../../api/lanes";
import type { BusyWorker } from "../../api/workers";

/** The load with the slots that the workers tell, so that one page never shows two answers of different moments. */
export function withWorkers(lane: LaneLoad, workers: readonly BusyWorker[] | undefined): LaneLoad {
  if (!workers) return lane;
  const slots = workers.flatMap((worker) => worker.slots.filter((each) => each.lane === lane.name));
  const sum = (of: "used" | "slots") => slots.reduce((all, each) => all + each[of], 0);
  const running = workers.flatMap((worker) => worker.jobs.filter((job) => job.lane === lane.name)).length;
  return { ...lane, used: sum("used"), total_slots: sum("slots"), workers: slots.length, running };
}

import type { LaneLoad } from "../../api/lanes";
import { classNames } from "../../parts/class-names";
import { Icon, type IconName } from "../../parts/icon";
import { words } from "../../words";
import styles from "./lanes.module.css";

type LaneState = "paused" | "noWorker" | "full" | "running" | "idle";

const ICONS: Record<LaneState, IconName> = {
  paused: "pause",
  noWorker: "warning",
  full: "late",
  running: "play",
  idle: "minus",
};

/** The first of these that holds: paused, no worker, full with jobs due, running, idle. */
export function laneStateOf(lane: LaneLoad): LaneState {
  if (!lane.enabled) return "paused";
  if (lane.workers === 0) return "noWorker";
  if (lane.used >= lane.total_slots && lane.due.value > 0) return "full";
  return lane.running > 0 ? "running" : "idle";
}

export function LaneStateBadge({ lane }: { lane: LaneLoad }) {
  const state = laneStateOf(lane);
  return (
    <span className={classNames(styles.state, styles[state])}>
      <Icon name={ICONS[state]} size={12} /> {words.lanes[state]}
    </span>
  );
}

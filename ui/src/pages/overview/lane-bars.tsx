import { Link } from "wouter";
import type { LaneLoad } from "../../api/lanes";
import { laneHref } from "../../api/searches";
import { Meter } from "../../parts/meter";
import { Panel } from "../../parts/page";
import { words } from "../../words";
import { countText, numberText } from "../../words/format";
import styles from "./overview.module.css";

const text = words.overview;

/** Each lane as a bar of its slots, with what waits for them. */
export function LaneBars({ lanes }: { lanes: LaneLoad[] }) {
  return (
    <Panel title={text.lanes}>
      <ul className={styles.lanes}>
        {lanes.map((lane) => {
          const used = numberText(lane.used);
          const all = numberText(lane.total_slots);
          const full = lane.total_slots > 0 && lane.used >= lane.total_slots && lane.due.value > 0;
          return (
            <li key={lane.name}>
              <Link href={laneHref(lane.name)}>{lane.name}</Link>
              <Meter
                value={lane.used}
                max={lane.total_slots}
                label={text.laneSlots(lane.name, used, all)}
                tone={full ? "warn" : "accent"}
              />
              <span className={styles.laneSlots}>
                {used}/{all}
              </span>
              <span className={styles.laneState}>
                {!lane.enabled
                  ? text.lanePaused
                  : lane.workers === 0
                    ? text.laneNoWorkers
                    : lane.due.value > 0 && text.laneDue(countText(lane.due, true))}
              </span>
            </li>
          );
        })}
      </ul>
    </Panel>
  );
}

import type { Schedule } from "../../api/schedules";
import { classNames } from "../../parts/class-names";
import { Icon } from "../../parts/icon";
import { words } from "../../words";
import styles from "./schedules.module.css";

/** On or paused; a skipped slot that is newer than the last run is marked. */
export function ScheduleStateBadge({ schedule }: { schedule: Schedule }) {
  const { enabled, skipped_at, last_at, skipped_why } = schedule;
  const skipped = enabled && skipped_at !== null && (last_at === null || skipped_at > last_at);
  return (
    <span
      className={classNames(styles.state, !enabled && styles.paused, skipped && styles.paused)}
      title={skipped ? words.schedules.skipped(skipped_why ?? "") : undefined}
    >
      <Icon name={!enabled ? "pause" : skipped ? "warning" : "check"} size={12} />
      {enabled ? words.schedules.enabled : words.schedules.paused}
    </span>
  );
}

import { useLive } from "../live/use-live";
import { classNames } from "../parts/class-names";
import { words } from "../words";
import styles from "./live-pill.module.css";

/** Says how the page hears of changes; a press pauses and resumes. */
export function LivePill() {
  const { status, pause, resume } = useLive();
  const text = words.shell.live;
  return (
    <>
      <button
        type="button"
        className={classNames(styles.pill, styles[status])}
        title={text.hint[status]}
        aria-pressed={status === "paused"}
        onClick={status === "paused" ? resume : pause}
      >
        <span className={styles.dot} />
        {text[status]}
      </button>
      <span role="status" className="visually-hidden">
        {text.announce[status]}
      </span>
    </>
  );
}

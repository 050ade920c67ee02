import type { Count, State } from "../../api/client";
import { classNames } from "../../parts/class-names";
import { words } from "../../words";
import { countText } from "../../words/format";
import styles from "./jobs.module.css";
import { STATES } from "./search-terms";

interface StateTabsProps {
  search: string;
  chosen: State | null;
  /** Jobs of the chosen tab. */
  count: Count | undefined;
  onChoose: (state: State | null) => void;
}

/** The states as filters in the search, with how many jobs the rest of the search finds in each. */
export function StateTabs({ chosen, count, onChoose }: StateTabsProps) {
  return (
    <div role="group" aria-label={words.jobs.byState} className={styles.states}>
      {[null, ...STATES].map((state) => (
        <button
          key={state ?? "all"}
          type="button"
          aria-pressed={state === chosen}
          className={classNames(styles.stateTab, state === chosen && styles.stateChosen)}
          onClick={() => onChoose(state)}
        >
          {state === null ? words.jobs.all : words.states[state]}
          {state === chosen && count && <span className={styles.badge}>{countText(count, true)}</span>}
        </button>
      ))}
    </div>
  );
}

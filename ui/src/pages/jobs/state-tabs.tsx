import { useQuery } from "@tanstack/react-query";
import type { State } from "../../api/client";
import { searchQueries } from "../../api/search";
import { classNames } from "../../parts/class-names";
import { words } from "../../words";
import { countText } from "../../words/format";
import styles from "./jobs.module.css";
import { STATES, withState } from "./search-terms";

interface StateTabsProps {
  search: string;
  chosen: State | null;
  onChoose: (state: State | null) => void;
}

/** Milliseconds between two counts. */
const EVERY = 10_000;

/** The states as filters in the search, with how many jobs the rest of the search finds in each. */
export function StateTabs({ search, chosen, onChoose }: StateTabsProps) {
  const counts = useQuery({
    ...searchQueries.counts(withState(search, null)),
    refetchInterval: EVERY,
    placeholderData: (before) => before,
  });
  return (
    <div role="group" aria-label={words.jobs.byState} className={styles.states}>
      {[null, ...STATES].map((state) => {
        const count = state && counts.data?.states[state];
        return (
          <button
            key={state ?? "all"}
            type="button"
            aria-pressed={state === chosen}
            className={classNames(styles.stateTab, state === chosen && styles.stateChosen)}
            onClick={() => onChoose(state)}
          >
            {state === null ? words.jobs.all : words.states[state]}
            {count && (count.value > 0 || state === chosen) && (
              <span className={styles.badge}>{countText(count, true)}</span>
            )}
          </button>
        );
      })}
    </div>
  );
}

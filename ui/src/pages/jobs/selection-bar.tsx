import type { Count, State } from "../../api/client";
import type { Permission } from "../../api/permissions";
import { useMayOrder } from "../../hooks/use-session";
import type { BulkAction } from "../../parts/bulk-order";
import { Button } from "../../parts/button";
import { words } from "../../words";
import { countText, numberText } from "../../words/format";
import styles from "./jobs.module.css";
import { possibleOrders, type Selection } from "./selection";

const text = words.jobs;

/** Orders in the bar, and the permission of each. */
const ORDERS: readonly (readonly [BulkAction, Permission])[] = [
  ["approve", "jobs:approve"],
  ["reject", "jobs:approve"],
  ["retry", "jobs:retry"],
  ["priority", "jobs:edit"],
  ["cancel", "jobs:cancel"],
  ["delete", "jobs:delete"],
];

interface SelectionBarProps {
  selection: Selection;
  /** The states of the selected jobs; null: not all of them are known. */
  states: ReadonlySet<State> | null;
  /** All loaded jobs are chosen, and there are more. */
  complete: boolean;
  found: Count | undefined;
  onMatching: () => void;
  onClear: () => void;
  onOrder: (action: BulkAction) => void;
}

export function SelectionBar({ selection, states, complete, found, onMatching, onClear, onOrder }: SelectionBarProps) {
  const mayOrder = useMayOrder();
  const possible = possibleOrders(states);
  const all = found ? countText(found) : "";
  return (
    <div role="region" aria-label={text.orders} className={styles.bar}>
      <span role="status">
        {selection.matching ? text.matchingSelected(all) : text.selected(numberText(selection.ids.size))}
      </span>
      {complete && !selection.matching && (
        <button type="button" className={styles.suggested} onClick={onMatching}>
          {text.selectMatching(all)}
        </button>
      )}
      <span className={styles.orders}>
        {ORDERS.filter(([action, permission]) => possible.includes(action) && mayOrder(permission)).map(([action]) => (
          <Button
            key={action}
            tone={action === "delete" || action === "cancel" ? "danger" : "plain"}
            onClick={() => onOrder(action)}
          >
            {text.bulk[action]}
          </Button>
        ))}
        <Button tone="quiet" onClick={onClear}>
          {text.clearSelection}
        </Button>
      </span>
    </div>
  );
}

import type { State } from "../api/client";
import type { WorkflowState } from "../api/workflows";
import { words } from "../words";
import { classNames } from "./class-names";
import { Icon, type IconName } from "./icon";
import styles from "./state-badge.module.css";

const ICONS: Record<State, IconName> = {
  pending: "hand",
  blocked: "lock",
  queued: "wait",
  running: "play",
  completed: "check",
  completed_with_errors: "half",
  failed: "cross",
  cancelled: "minus",
  expired: "late",
};

/** A state as picture, word and colour: none of the three is needed to understand it. */
export function StateBadge({ state, quiet = false }: { state: State; quiet?: boolean }) {
  return (
    <span className={classNames(styles.badge, styles[state], quiet && styles.quiet)}>
      <Icon name={ICONS[state]} size={12} />
      {words.states[state]}
    </span>
  );
}

/** A workflow's state in the colours of a job's. */
export function WorkflowStateBadge({ state }: { state: WorkflowState }) {
  if (state !== "compensating") return <StateBadge state={state} />;
  return (
    <span className={classNames(styles.badge, styles.completed_with_errors)}>
      <Icon name="retry" size={12} />
      {words.workflows.compensating}
    </span>
  );
}

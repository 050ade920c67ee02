import { useState } from "react";
import type { Job } from "../../api/client";
import type { Attempt, Attempts } from "../../api/jobs";
import { Dialog } from "../../parts/dialog";
import { JsonDiffTable } from "../../parts/json-diff-table";
import { Panel } from "../../parts/page";
import { Empty, Loading } from "../../parts/page-states";
import { Button } from "../../parts/button";
import { Elapsed, Instant } from "../../parts/time";
import { words } from "../../words";
import { durationText } from "../../words/format";
import { ErrorDetails } from "./error-panel";
import { errorFacts } from "./error-text";
import styles from "./job.module.css";

const text = words.job.attempts;

/** The last attempt as the job's row has it, where no row of its own tells of it. */
function lastAttempt(job: Job, attempts: readonly Attempt[]): Attempt[] {
  const told = attempts.some((each) => each.started_at === job.claimed_at);
  if (!job.claimed_at || told || !job.finished_at) return [];
  return [
    {
      attempt: job.attempt,
      worker: job.worker,
      started_at: job.claimed_at,
      ended_at: job.finished_at,
      outcome: words.states[job.state],
      error: job.errors,
    },
  ];
}

export function AttemptsPanel({ job, attempts }: { job: Job; attempts: Attempts | undefined }) {
  const [chosen, setChosen] = useState<readonly number[]>([]);
  const [comparing, setComparing] = useState(false);
  if (!attempts) return <Loading lines={3} />;
  const rows = [...attempts.attempts, ...lastAttempt(job, attempts.attempts)];
  if (rows.length === 0) return <Empty title={text.none} />;
  const toggle = (index: number) =>
    setChosen(chosen.includes(index) ? chosen.filter((each) => each !== index) : [...chosen.slice(-1), index]);
  const [before, after] = [...chosen].sort((a, b) => a - b).map((index) => rows[index]);
  return (
    <div className={styles.attempts}>
      {rows.length > 1 && (
        <div className={styles.compare}>
          <Button disabled={chosen.length !== 2} onClick={() => setComparing(true)}>
            {text.compare}
          </Button>
          <span className={styles.faint}>{text.compareHint}</span>
        </div>
      )}
      {rows.map((row, index) => (
        <AttemptPanel
          key={index}
          row={row}
          run={index + 1}
          open={index === rows.length - 1}
          {...(rows.length > 1 && { chosen: chosen.includes(index), onChoose: () => toggle(index) })}
        />
      ))}
      {comparing && before && after && (
        <Dialog wide title={text.compareTitle} onClose={() => setComparing(false)}>
          <JsonDiffTable
            label={text.compareTitle}
            before={comparable(before)}
            after={comparable(after)}
            beforeTitle={`${text.number} ${before.attempt ?? ""}`}
            afterTitle={`${text.number} ${after.attempt ?? ""}`}
          />
        </Dialog>
      )}
    </div>
  );
}

function comparable(attempt: Attempt) {
  const { started_at, ended_at, worker, outcome, error } = attempt;
  const facts = errorFacts(error);
  return {
    [text.outcome]: outcome,
    [text.worker]: worker,
    [text.started]: started_at,
    [text.ran]: started_at ? durationText((Date.parse(ended_at) - Date.parse(started_at)) / 1000) : null,
    [text.error]: facts && [facts.type, facts.message].filter(Boolean).join(": "),
    [words.job.error.traceback]: facts?.traceback?.split("\n") ?? null,
  };
}

interface AttemptPanelProps {
  row: Attempt;
  /** Its place among all runs of the job: attempts are counted anew after a person's retry. */
  run: number;
  open: boolean;
  chosen?: boolean;
  onChoose?: () => void;
}

function AttemptPanel({ row, run, open, chosen, onChoose }: AttemptPanelProps) {
  const title = text.run(run, row.attempt === null ? words.none : String(row.attempt), row.outcome);
  return (
    <Panel
      title={title}
      actions={
        onChoose && (
          <label className={styles.choose}>
            <input
              type="checkbox"
              checked={chosen ?? false}
              onChange={onChoose}
              aria-label={`${text.compare}: ${title}`}
            />
            {text.compare}
          </label>
        )
      }
    >
      <p className={styles.attemptFacts}>
        <span>
          {text.worker}: {row.worker ?? words.none}
        </span>
        <span>
          {text.started}: <Instant at={row.started_at} />
        </span>
        <span>
          {text.ran}: <Elapsed since={row.started_at} until={row.ended_at} />
        </span>
      </p>
      {row.error && (
        <details open={open} className={styles.attemptError}>
          <summary>{text.error}</summary>
          <ErrorDetails error={row.error} />
        </details>
      )}
    </Panel>
  );
}

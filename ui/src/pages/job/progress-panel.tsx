import type { Schema } from "../../api/client";
import { Meter } from "../../parts/meter";
import { Panel } from "../../parts/page";
import { Elapsed } from "../../parts/time";
import { words } from "../../words";
import { durationText, numberText, percentText } from "../../words/format";
import styles from "./job.module.css";

type Progress = Schema["ProgressAnswer"];
type Phase = Schema["PhaseAnswer"];

const text = words.job.progress;

/** The phases of the attempt as bars, what the handler said last, and the counts of its items. */
export function ProgressPanel({ progress, running }: { progress: Progress; running: boolean }) {
  const phases = progress.phases.length > 0 ? progress.phases : [asPhase(progress)];
  const { items } = progress;
  return (
    <Panel title={text.title}>
      <div className={styles.progress}>
        {progress.message && <p>{progress.message}</p>}
        <ul className={styles.phases}>
          {phases.map((phase, index) => (
            <PhaseBar key={`${phase.name}-${index}`} phase={phase} running={running} />
          ))}
        </ul>
        {running && progress.eta !== null && progress.eta > 0 && (
          <p className={styles.faint}>{text.eta(durationText(progress.eta))}</p>
        )}
        {items && (
          <p className={styles.faint}>
            {text.itemCounts(
              numberText(items.completed),
              numberText(items.skipped),
              numberText(items.failed),
              numberText(items.in_progress),
            )}
          </p>
        )}
      </div>
    </Panel>
  );
}

function asPhase(progress: Progress): Phase {
  return {
    name: progress.phase ?? "",
    started_at: null,
    ended_at: null,
    done: progress.done,
    total: progress.total,
  };
}

function PhaseBar({ phase, running }: { phase: Phase; running: boolean }) {
  const share = phase.total ? Math.min(1, phase.done / phase.total) : null;
  const name = phase.name || text.noPhase;
  return (
    <li className={styles.phase}>
      <span className={styles.phaseName}>{name}</span>
      <Meter
        label={name}
        value={Math.round((share ?? (phase.ended_at ? 1 : 0)) * 100)}
        max={100}
        tone={phase.ended_at ? "good" : "accent"}
      />
      <span className={styles.phaseText}>
        {phase.total ? text.units(numberText(phase.done), numberText(phase.total)) : numberText(phase.done)}
        {share !== null && <span> ({percentText(share)})</span>}
      </span>
      <span className={styles.phaseTime}>
        {phase.started_at && (phase.ended_at ?? running) ? (
          <Elapsed since={phase.started_at} until={phase.ended_at} />
        ) : (
          words.none
        )}
      </span>
    </li>
  );
}

import { useState } from "react";
import type { Job } from "../../api/client";
import { CopyButton } from "../../parts/copy-button";
import { Icon } from "../../parts/icon";
import { Panel } from "../../parts/page";
import { Segments } from "../../parts/tabs";
import { words } from "../../words";
import { errorFacts } from "./error-text";
import styles from "./job.module.css";
import { type Frame, partsOf } from "./traceback";

const text = words.job.error;
const SHOWN = 20;

export function ErrorPanel({ error, title }: { error: Job["errors"]; title: string }) {
  const facts = errorFacts(error);
  if (!facts) return null;
  return (
    <Panel title={title}>
      <ErrorDetails error={error} />
    </Panel>
  );
}

/** Class, message and reason; the traceback folded to the frames of the user's own code; collected errors as a list. */
export function ErrorDetails({ error }: { error: Job["errors"] }) {
  const facts = errorFacts(error);
  const [all, setAll] = useState(false);
  if (!facts) return null;
  const shown = all ? facts.collected : facts.collected.slice(0, SHOWN);
  return (
    <div className={styles.error}>
      {(facts.type ?? facts.message) && (
        <p className={styles.message}>
          {facts.type && <strong>{facts.type}</strong>} {facts.message}
        </p>
      )}
      {facts.reason && <p className={styles.reason}>{facts.reason}</p>}
      {facts.collected.length > 0 && (
        <>
          <h3>{text.collected(facts.collected.length)}</h3>
          <ul className={styles.collected}>
            {shown.map((each, index) => (
              <li key={index}>{each}</li>
            ))}
          </ul>
          {facts.collected.length > shown.length && (
            <button type="button" className={styles.plain} onClick={() => setAll(true)}>
              {text.more}
            </button>
          )}
        </>
      )}
      {facts.traceback && <Traceback text={facts.traceback} />}
    </div>
  );
}

function Traceback({ text: written }: { text: string }) {
  const [view, setView] = useState<"own" | "raw">("own");
  return (
    <div className={styles.traceback}>
      <div className={styles.tracebackHead}>
        <h3>{text.traceback}</h3>
        <Segments
          label={text.traceback}
          choices={[
            { name: "own", label: text.folding },
            { name: "raw", label: text.raw },
          ]}
          chosen={view}
          onChoose={setView}
        />
        <CopyButton text={written} />
      </div>
      {view === "raw" ? (
        // Long lines scroll: the keyboard must reach them too.
        // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
        <pre className={styles.pre} tabIndex={0}>
          {written}
        </pre>
      ) : (
        <div className={styles.frames}>
          {partsOf(written).map((part, index) => {
            if (part.type === "text") return <pre key={index}>{part.text}</pre>;
            if (part.own) return part.frames.map((frame, at) => <FrameLines key={`${index}-${at}`} frame={frame} />);
            return (
              <details key={index}>
                <summary>
                  <Icon name="right" size={12} /> {text.folded(part.frames.length)}
                </summary>
                {part.frames.map((frame, at) => (
                  <FrameLines key={at} frame={frame} />
                ))}
              </details>
            );
          })}
        </div>
      )}
    </div>
  );
}

function FrameLines({ frame }: { frame: Frame }) {
  return (
    <div className={styles.frame}>
      <div className={styles.where}>
        <span>
          {frame.file}:{frame.line}
        </span>{" "}
        <strong>{frame.name}</strong>
      </div>
      {frame.source.length > 0 && <pre>{frame.source.join("\n")}</pre>}
    </div>
  );
}

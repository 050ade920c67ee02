import { useLayoutEffect, useRef, useState } from "react";
import type { LogLine } from "../../api/jobs";
import { Button } from "../../parts/button";
import { classNames } from "../../parts/class-names";
import { SelectField, TextField } from "../../parts/field";
import { Panel } from "../../parts/page";
import { Empty, Loaded } from "../../parts/page-states";
import { words } from "../../words";
import { instantText, numberText } from "../../words/format";
import styles from "./job.module.css";
import { useLog } from "./use-log";

const text = words.job.log;
const LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];
/** Pixels from the end within which the view goes on with new lines. */
const NEAR_END = 40;

/** The lines of a job's log. The newest stay in view until a person scrolls up. */
export function LogPanel({ id, running }: { id: string; running: boolean }) {
  const [follow, setFollow] = useState(true);
  const [level, setLevel] = useState("");
  const [filter, setFilter] = useState("");
  const query = useLog(id, running, follow);
  return (
    <Loaded query={query} lines={8}>
      {(log) => {
        if (log.lines.length === 0 && !running) return <Empty title={text.none}>{text.noneText}</Empty>;
        const least = LEVELS.indexOf(level);
        const wanted = filter.toLowerCase();
        const lines = log.lines.filter(
          (line) => LEVELS.indexOf(line.level) >= least && line.message.toLowerCase().includes(wanted),
        );
        return (
          <Panel>
            <div className={styles.logTools}>
              <SelectField label={text.level} value={level} onChange={(event) => setLevel(event.target.value)}>
                <option value="">{text.all}</option>
                {LEVELS.map((each) => (
                  <option key={each}>{each}</option>
                ))}
              </SelectField>
              <TextField label={text.filter} value={filter} onChange={(event) => setFilter(event.target.value)} />
              {running && (
                <Button icon={follow ? "pause" : "play"} aria-pressed={follow} onClick={() => setFollow(!follow)}>
                  {follow ? text.following : text.follow}
                </Button>
              )}
            </div>
            <Lines lines={lines} follow={follow} />
          </Panel>
        );
      }}
    </Loaded>
  );
}

function Lines({ lines, follow }: { lines: readonly LogLine[]; follow: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    if (follow && atEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines.length, follow]);
  return (
    <div
      ref={box}
      role="log"
      aria-label={words.job.sections.log}
      // It scrolls: the keyboard must reach it.
      // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
      tabIndex={0}
      className={styles.log}
      onScroll={(event) => {
        const { scrollHeight, scrollTop, clientHeight } = event.currentTarget;
        atEnd.current = scrollHeight - scrollTop - clientHeight < NEAR_END;
      }}
    >
      {lines.map((line) => (
        <Line key={line.n} line={line} />
      ))}
    </div>
  );
}

const time = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
});

function Line({ line }: { line: LogLine }) {
  return (
    <>
      {line.missed > 0 && <div className={styles.missed}>{text.missed(numberText(line.missed))}</div>}
      <div className={classNames(styles.line, styles[`level_${line.level}`])}>
        <time dateTime={line.at} title={instantText(line.at)}>
          {time.format(new Date(line.at))}
        </time>
        <span className={styles.level}>{line.level}</span>
        <span className={styles.logText} title={line.logger}>
          {line.message}
        </span>
      </div>
    </>
  );
}

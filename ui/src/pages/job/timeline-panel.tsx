import type { Job } from "../../api/client";
import type { Attempts } from "../../api/jobs";
import { useNow } from "../../hooks/use-now";
import { classNames } from "../../parts/class-names";
import { Panel } from "../../parts/page";
import { words } from "../../words";
import { clockText, durationText, instantText, shareMinute } from "../../words/format";
import styles from "./job.module.css";
import { type Moment, sharesOf, timelineOf } from "./timeline";

const text = words.job.timeline;
/** Shorter spans are not worth a line. Seconds. */
const WORTH_TELLING = 0.001;

/** The life of the job: a line of moments, with attempts beside it and the time between them. */
export function TimelinePanel({ job, attempts }: { job: Job; attempts: Attempts | undefined }) {
  const now = useNow();
  const moments = timelineOf(job, attempts?.attempts ?? [], attempts?.acts ?? [], now);
  const { waited, ran } = sharesOf(moments);
  const toSecond = shareMinute(moments.map(({ at }) => at));
  return (
    <Panel title={text.title}>
      <div
        role="img"
        aria-label={text.share(durationText(waited), durationText(ran))}
        className={styles.share}
        title={text.share(durationText(waited), durationText(ran))}
      >
        <span className={styles.shareWaited} style={{ flexGrow: Math.max(waited, (waited + ran) / 50) }} />
        {ran > 0 && <span className={styles.shareRan} style={{ flexGrow: Math.max(ran, (waited + ran) / 50) }} />}
      </div>
      <ol className={styles.moments}>
        {moments.map((moment, index) => (
          <li
            key={index}
            className={classNames(styles.moment, moment.since?.doing === "running" && styles.branch, toneOf(moment))}
          >
            {moment.since && moment.since.seconds >= WORTH_TELLING && (
              <span className={styles.between}>
                {(moment.since.doing === "running" ? text.running : text.waiting)(durationText(moment.since.seconds))}
              </span>
            )}
            <span className={styles.what}>{titleOf(moment)}</span>
            <time dateTime={moment.at} title={instantText(moment.at)} className={styles.when}>
              {clockText(moment.at, now, toSecond)}
            </time>
            {moment.note && <q className={styles.note}>{moment.note}</q>}
          </li>
        ))}
      </ol>
    </Panel>
  );
}

function toneOf(moment: Moment): string | undefined {
  if (moment.type === "ended") return styles[`tone_${moment.state ?? "completed"}`];
  if (moment.type === "attempt-ended") return styles.tone_failed;
  return moment.type === "started" ? styles.tone_running : undefined;
}

function titleOf(moment: Moment): string {
  const attempt = moment.attempt === null || moment.attempt === undefined ? "" : String(moment.attempt);
  switch (moment.type) {
    case "created":
      return text.created;
    case "due":
      return text.due;
    case "started":
      return text.started(attempt, moment.worker ?? text.unknownWorker);
    case "attempt-ended":
      return text.attemptEnded(attempt, moment.outcome ?? "");
    case "act":
      return text.act(moment.verb ?? "", moment.by ?? text.somebody);
    case "ended":
      return text.ended(words.states[moment.state ?? "completed"]);
    case "now":
      return `${text.now}: ${moment.state === "running" ? text.stillRunning : text.stillWaiting}`;
  }
}

import { useState } from "react";
import { Link } from "wouter";
import { laneHref, scheduleHref } from "../../api/searches";
import type { Change } from "../../api/system";
import { changedFields } from "../../parts/audit-history";
import { Button } from "../../parts/button";
import { classNames } from "../../parts/class-names";
import { Icon, type IconName } from "../../parts/icon";
import { Instant } from "../../parts/time";
import { words } from "../../words";
import { numberText } from "../../words/format";
import styles from "./incident.module.css";

const text = words.incident;

/** Where a change can be looked at; null: nowhere. */
function hrefOf({ target }: Change): string | null {
  const [sort, name] = splitOnce(target);
  if (sort === "lane") return laneHref(name);
  if (sort === "schedule") return scheduleHref(name);
  if (sort === "failure") return `/failures/${encodeURIComponent(name)}`;
  if (sort === "gate") return `/limits?gate=${encodeURIComponent(name)}`;
  if (sort === "rate") return "/limits?tab=rates";
  return sort === "worker" ? `/workers?q=${encodeURIComponent(name)}` : null;
}

function splitOnce(target: string): [string, string] {
  const at = target.indexOf(":");
  return at < 0 ? [target, ""] : [target.slice(0, at), target.slice(at + 1)];
}

function iconOf({ what }: Change): IconName {
  if (what === "deploy") return "download";
  return what.startsWith("failure") ? "failures" : "edit";
}

/** Lines that are shown at first: the charts below stay near. */
const FIRST = 8;

/** What changed, the newest first: deploys, orders of people, failures that began. */
export function ChangeList({ changes }: { changes: readonly Change[] }) {
  const [all, setAll] = useState(false);
  if (changes.length === 0) return <p className={styles.none}>{text.noChanges}</p>;
  return (
    <>
      <ol className={styles.changes}>
        {changes.slice(0, all ? changes.length : FIRST).map((change, index) => (
          <ChangeLine key={`${change.at} ${change.target} ${index}`} change={change} />
        ))}
      </ol>
      {!all && changes.length > FIRST && (
        <p className={styles.further}>
          <Button onClick={() => setAll(true)}>{text.allChanges(numberText(changes.length))}</Button>
        </p>
      )}
    </>
  );
}

/** What a new failure is, in words; null for other changes. */
function failureText({ what, after }: Change): string | null {
  if (!what.startsWith("failure") || !after) return null;
  const part = (name: string) => (typeof after[name] === "string" ? after[name] : "");
  return `${part("kind")}: ${part("type")} ${part("message")}`;
}

function ChangeLine({ change }: { change: Change }) {
  const href = hrefOf(change);
  const failure = failureText(change);
  const altered = failure === null ? changedFields(change) : [];
  return (
    <li className={classNames(styles.change, change.what.startsWith("failure") && styles.failure)}>
      <span className={styles.at}>
        <Instant at={change.at} clock />
      </span>
      <Icon name={iconOf(change)} />
      <div>
        <strong>{text.what[change.what] ?? change.what}</strong>{" "}
        {href ? <Link href={href}>{failure ?? change.target}</Link> : change.target}{" "}
        {change.by && <span className={styles.by}>{text.by(change.by)}</span>}
        {change.note && <p>{change.note}</p>}
        {altered.length > 0 && (
          <p className={styles.altered}>
            {altered.slice(0, 6).map(([field, from, to]) => (
              <span key={field}>
                {field}: {change.before === null ? to : `${from} → ${to}`}
              </span>
            ))}
          </p>
        )}
      </div>
    </li>
  );
}

import { useState } from "react";
import { words } from "../words";
import { CopyButton } from "./copy-button";
import { Icon } from "./icon";
import styles from "./json-tree.module.css";

/** The text that the API puts in place of a secret. */
const MASK = "•••";
/** Entries of an object or array that are shown before "more". */
const STEP = 100;
const LONG = 400;

/** A JSON value as a tree that folds. Secrets, which the API has masked, are marked. */
export function JsonTree({ value, label }: { value: unknown; label: string }) {
  return (
    <div className={styles.tree} role="group" aria-label={label}>
      <div className={styles.copy}>
        <CopyButton text={JSON.stringify(value, null, 2)} />
      </div>
      <Branch value={value} depth={0} />
    </div>
  );
}

function isBranch(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

function entriesOf(value: object): [string, unknown][] {
  return Array.isArray(value)
    ? value.map((each: unknown, index) => [String(index), each])
    : Object.entries(value as Record<string, unknown>);
}

function Branch({ value, depth, name }: { value: unknown; depth: number; name?: string }) {
  const [shown, setShown] = useState(STEP);
  if (!isBranch(value)) {
    return (
      <div className={styles.leaf}>
        {name !== undefined && <span className={styles.name}>{name}</span>}
        <Leaf value={value} />
      </div>
    );
  }
  const entries = entriesOf(value);
  const summary = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  if (entries.length === 0)
    return (
      <div className={styles.leaf}>
        {name !== undefined && <span className={styles.name}>{name}</span>}
        <span className={styles.faint}>{Array.isArray(value) ? "[]" : "{}"}</span>
      </div>
    );
  const inside = (
    <div className={styles.inside}>
      {entries.slice(0, shown).map(([key, each]) => (
        <Branch key={key} name={key} value={each} depth={depth + 1} />
      ))}
      {entries.length > shown && (
        <button type="button" className={styles.more} onClick={() => setShown(shown + 10 * STEP)}>
          {words.more} ({entries.length - shown})
        </button>
      )}
    </div>
  );
  if (name === undefined) return inside;
  return (
    <details open={depth < 3 && entries.length <= 20}>
      <summary>
        <Icon name="right" size={12} />
        <span className={styles.name}>{name}</span>
        <span className={styles.faint}>{summary}</span>
      </summary>
      {inside}
    </details>
  );
}

function Leaf({ value }: { value: unknown }) {
  const [whole, setWhole] = useState(false);
  if (typeof value !== "string") return <span className={styles[typeof value] ?? ""}>{JSON.stringify(value)}</span>;
  if (value === MASK)
    return (
      <span className={styles.secret} title={words.hiddenHint}>
        <Icon name="lock" size={12} /> {words.hidden}
      </span>
    );
  const cut = value.length > LONG && !whole;
  return (
    <span className={styles.string}>
      {JSON.stringify(cut ? value.slice(0, LONG) : value)}
      {cut && (
        <button type="button" className={styles.more} onClick={() => setWhole(true)}>
          {words.more}
        </button>
      )}
    </span>
  );
}

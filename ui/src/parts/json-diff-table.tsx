import { useState } from "react";
import { words } from "../words";
import { Button } from "./button";
import { classNames } from "./class-names";
import { differencesOf } from "./json-diff";
import styles from "./json-diff-table.module.css";

interface JsonDiffTableProps {
  label: string;
  before: unknown;
  after: unknown;
  beforeTitle: string;
  afterTitle: string;
}

const shown = (value: unknown): string => (value === undefined ? words.none : JSON.stringify(value));

/** Two JSON values side by side, the differences first in sight; what agrees can be shown too. */
export function JsonDiffTable({ label, before, after, beforeTitle, afterTitle }: JsonDiffTableProps) {
  const [whole, setWhole] = useState(false);
  const all = differencesOf(before, after);
  const changed = all.filter((each) => each.change !== "same");
  const rows = whole ? all : changed;
  return (
    <div className={styles.diff}>
      {rows.length === 0 ? (
        <p>{words.diff.same}</p>
      ) : (
        <table aria-label={label}>
          <thead>
            <tr>
              <th scope="col">{words.diff.path}</th>
              <th scope="col">{beforeTitle}</th>
              <th scope="col">{afterTitle}</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.path} className={classNames(styles[row.change])}>
                <th scope="row">
                  {row.path || words.diff.value}
                  {row.change !== "same" && <span className="visually-hidden"> {words.diff[row.change]}</span>}
                </th>
                <td>{shown(row.before)}</td>
                <td>{shown(row.after)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {all.length > changed.length && (
        <Button tone="quiet" onClick={() => setWhole(!whole)}>
          {whole ? words.diff.onlyChanges : words.diff.all(all.length - changed.length)}
        </Button>
      )}
    </div>
  );
}

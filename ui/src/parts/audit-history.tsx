import { useInfiniteQuery } from "@tanstack/react-query";
import type { AuditEntry, AuditSearch } from "../api/system";
import { systemQueries } from "../api/system";
import { words } from "../words";
import styles from "./audit-history.module.css";
import { Button } from "./button";
import { Loaded } from "./page-states";
import { Instant } from "./time";

const text = words.audit;

/** What a change altered, field by field; nested values as JSON. */
export function changedFields({
  before,
  after,
}: Pick<AuditEntry, "before" | "after">): [field: string, from: string, to: string][] {
  const names = new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})]);
  const written = (value: unknown) => (value === undefined ? words.none : JSON.stringify(value));
  return [...names]
    .map((name): [string, string, string] => [name, written(before?.[name]), written(after?.[name])])
    .filter(([, from, to]) => from !== to);
}

/** Who did what, the newest first, with what it changed. */
export function AuditHistory({ search, empty }: { search: AuditSearch; empty: string }) {
  const audit = useInfiniteQuery(systemQueries.audit(search));
  return (
    <Loaded query={audit} lines={3}>
      {({ pages }) => {
        const entries = pages.flatMap((page) => page.items);
        if (entries.length === 0) return <p className={styles.empty}>{empty}</p>;
        return (
          <>
            <ol className={styles.entries}>
              {entries.map((entry) => (
                <AuditLine key={entry.id} entry={entry} />
              ))}
            </ol>
            {audit.hasNextPage && (
              <div className={styles.more}>
                <Button busy={audit.isFetchingNextPage} onClick={() => void audit.fetchNextPage()}>
                  {words.loadMore}
                </Button>
              </div>
            )}
          </>
        );
      }}
    </Loaded>
  );
}

function AuditLine({ entry }: { entry: AuditEntry }) {
  const changes = changedFields(entry);
  return (
    <li className={styles.entry}>
      <div className={styles.head}>
        <strong>{entry.action}</strong>
        <span>{entry.target}</span>
        <span className={styles.by}>
          {text.by(entry.subject)}
          {entry.acting_for && ` ${text.actingFor(entry.acting_for)}`}
        </span>
        <span className={styles.at}>
          <Instant at={entry.at} />
        </span>
      </div>
      {entry.note && <p className={styles.note}>{entry.note}</p>}
      {changes.length > 0 && (
        <details>
          <summary>{text.changes(String(changes.length))}</summary>
          <dl className={styles.changes}>
            {changes.map(([field, from, to]) => (
              <div key={field}>
                <dt>{field}</dt>
                <dd>
                  <del>{from}</del> <ins>{to}</ins>
                </dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </li>
  );
}

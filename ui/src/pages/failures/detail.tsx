import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { type FailureGroupDetail, failureQueries, muteFailure, unmuteFailure } from "../../api/failures";
import { WINDOWS } from "../../api/stats";
import { useOrder } from "../../hooks/use-order";
import { useMayOrder } from "../../hooks/use-session";
import { useUrlChoice } from "../../hooks/use-url-state";
import { BulkOrderDialog } from "../../parts/bulk-order";
import { Button } from "../../parts/button";
import { ConfirmOrder } from "../../parts/confirm-order";
import { Facts, Page, Panel } from "../../parts/page";
import { ErrorNotice, Loading } from "../../parts/page-states";
import { Sparkline } from "../../parts/sparkline";
import { Segments } from "../../parts/tabs";
import { Instant } from "../../parts/time";
import { words } from "../../words";
import { numberText } from "../../words/format";
import { ErrorDetails } from "../job/error-panel";
import { causeOf } from "./cause";
import styles from "./failures.module.css";

const text = words.failures;

/** One cause: how often and since when, its last error, and orders for all its jobs. */
export function FailureDetail({ fingerprint }: { fingerprint: string }) {
  const [window, setWindow] = useUrlChoice("window", ["24h", "1h", "7d"]);
  const query = useQuery({ ...failureQueries.one(fingerprint, window), placeholderData: (before) => before });
  if (!query.data)
    return (
      <Page title={text.title}>
        {query.error ? <ErrorNotice error={query.error} onRetry={() => void query.refetch()} /> : <Loading />}
      </Page>
    );
  const group = query.data;
  const cause = causeOf(group);
  return (
    <Page
      title={cause}
      badge={group.state === "muted" && <span className={styles.muted}>{text.muted}</span>}
      subtitle={<Link href="/failures">{text.back}</Link>}
      actions={<GroupOrders group={group} />}
    >
      <Panel
        title={text.facts.title}
        actions={
          <Segments
            label={text.window}
            choices={WINDOWS.map((name) => ({ name, label: words.windows[name] }))}
            chosen={window}
            onChoose={setWindow}
          />
        }
      >
        <div className={styles.about}>
          <div className={styles.spark}>
            <Sparkline values={group.steps} label={text.sparkline(cause)} tone="danger" />
          </div>
          <Facts
            facts={[
              [text.facts.kind, group.kind],
              ...(group.frame ? [[text.facts.frame, group.frame] as const] : []),
              [text.facts.first, <Instant key="first" at={group.first_seen} />],
              [text.facts.last, <Instant key="last" at={group.last_seen} />],
              [text.column.within, numberText(group.within)],
              [text.facts.failed, numberText(group.failed)],
              [text.facts.retried, numberText(group.retried)],
              ...(group.muted_at
                ? [[text.mutedBy(group.muted_by ?? text.unknown), group.note ?? words.none] as const]
                : []),
            ]}
          />
        </div>
      </Panel>
      <Panel
        title={text.sample}
        actions={group.last_job_id && <Link href={`/jobs/${group.last_job_id}`}>{text.sampleJob}</Link>}
      >
        {group.sample ? <ErrorDetails error={{ ...group.sample }} /> : <p>{text.noSample}</p>}
      </Panel>
    </Page>
  );
}

function GroupOrders({ group }: { group: FailureGroupDetail }) {
  const mayOrder = useMayOrder();
  const [asked, setAsked] = useState<"retry" | "mute" | "unmute" | null>(null);
  const search = `fingerprint:${group.fingerprint}`;
  const muting = useOrder(
    (note: string | null) => (asked === "unmute" ? unmuteFailure : muteFailure)(group.fingerprint, note),
    {
      done: (changed) => text.done[changed.state === "muted" ? "mute" : "unmute"],
      refresh: [["failures"]],
      toastError: false,
      onDone: () => setAsked(null),
    },
  );
  const other = group.state === "muted" ? "unmute" : "mute";
  return (
    <>
      <Link href={`/jobs?q=${encodeURIComponent(search)}`}>{text.jobs}</Link>
      {mayOrder("jobs:retry", group) && !group.other && (
        <>
          <Button onClick={() => setAsked(other)}>{text[other]}</Button>
          <Button tone="primary" icon="retry" onClick={() => setAsked("retry")}>
            {text.retry}
          </Button>
        </>
      )}
      {asked === "retry" && (
        <BulkOrderDialog action="retry" target={{ search: `${search} state:failed` }} onClose={() => setAsked(null)} />
      )}
      {(asked === "mute" || asked === "unmute") && (
        <ConfirmOrder
          title={`${text[asked]}: ${causeOf(group)}`}
          action={text[asked]}
          note
          busy={muting.isPending}
          error={muting.error}
          onConfirm={(note) => muting.mutate(note)}
          onClose={() => setAsked(null)}
        >
          <p>{asked === "mute" ? text.muteText : text.unmuteText}</p>
        </ConfirmOrder>
      )}
    </>
  );
}

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useParams } from "wouter";
import type { Job, Versioned } from "../../api/client";
import { type Attempts, jobQueries, WAITING } from "../../api/jobs";
import { useNow } from "../../hooks/use-now";
import { useMayRead } from "../../hooks/use-session";
import { useUrlChoice } from "../../hooks/use-url-state";
import { useLive } from "../../live/use-live";
import { CopyButton } from "../../parts/copy-button";
import { JsonTree } from "../../parts/json-tree";
import { Facts, Page, Panel } from "../../parts/page";
import { ErrorNotice, Loading } from "../../parts/page-states";
import { StateBadge } from "../../parts/state-badge";
import { Tabs } from "../../parts/tabs";
import { Elapsed, Instant } from "../../parts/time";
import { words } from "../../words";
import { numberText } from "../../words/format";
import { AttemptsPanel } from "./attempts-panel";
import { AuditPanel } from "./audit-panel";
import { ErrorPanel } from "./error-panel";
import { ItemsPanel } from "./items-panel";
import styles from "./job.module.css";
import { LogPanel } from "./log-panel";
import { JobOrders } from "./orders";
import { ProgressPanel } from "./progress-panel";
import { RelatedPanel } from "./related-panel";
import { TimelinePanel } from "./timeline-panel";
import { WhyPanel } from "./why-panel";

const text = words.job;
/** Milliseconds between two looks at a running job: its progress is not in the feed. */
const EVERY = 1200;

export default function JobPage() {
  const { id = "" } = useParams();
  return <OneJob key={id} id={id} />;
}

function OneJob({ id }: { id: string }) {
  const live = useLive();
  const followed = (data: Versioned<Job> | undefined) =>
    data?.data.state === "running" && live.status !== "paused" ? EVERY : false;
  const query = useQuery({ ...jobQueries.one(id), refetchInterval: (now) => followed(now.state.data) });
  const attempts = useQuery({ ...jobQueries.attempts(id), enabled: query.data !== undefined });
  const [deleted, setDeleted] = useState(false);
  if (query.error && !query.data)
    return (
      <Page title={id}>
        <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
        {query.error.message && <p className={styles.gone}>{text.gone}</p>}
      </Page>
    );
  if (!query.data)
    return (
      <Page title={text.title}>
        <Loading lines={10} />
      </Page>
    );
  const { data: job, etag } = query.data;
  return (
    <Page
      title={job.kind}
      badge={
        <>
          <StateBadge state={job.state} />
          {job.cancel_requested && job.state === "running" && <span className={styles.mark}>{text.cancelling}</span>}
        </>
      }
      subtitle={
        <span className={styles.id}>
          <code>{job.id}</code> <CopyButton text={job.id} />
        </span>
      }
      actions={!deleted && <JobOrders job={job} etag={etag} onDeleted={() => setDeleted(true)} />}
    >
      <Body job={job} attempts={attempts.data} />
    </Page>
  );
}

const TABS = ["data", "attempts", "log", "items", "audit", "related"] as const;

function Body({ job, attempts }: { job: Job; attempts: Attempts | undefined }) {
  const now = useNow();
  return (
    <div className={styles.layout}>
      <div className={styles.main}>
        {WAITING.includes(job.state) && <WhyPanel id={job.id} />}
        {job.errors && job.state !== "running" && <ErrorPanel error={job.errors} title={text.error.title} />}
        {job.progress && <ProgressPanel progress={job.progress} running={job.state === "running"} />}
        <Sections job={job} attempts={attempts} />
      </div>
      <div className={styles.side}>
        <TimelinePanel job={job} attempts={attempts} />
        <Panel title={text.facts.title}>
          <Facts facts={factsOf(job, now)} />
        </Panel>
      </div>
    </div>
  );
}

function Sections({ job, attempts }: { job: Job; attempts: Attempts | undefined }) {
  const mayRead = useMayRead();
  const [section, setSection] = useUrlChoice("section", TABS);
  const earlier = attempts?.attempts.length ?? 0;
  const items = job.progress?.items;
  const count = items && items.completed + items.skipped + items.failed + items.in_progress;
  const tabs = [
    { name: "data", label: text.sections.data },
    { name: "attempts", label: text.sections.attempts, ...(earlier > 0 && { badge: numberText(earlier) }) },
    { name: "log", label: text.sections.log },
    ...(count ? [{ name: "items" as const, label: text.sections.items, badge: numberText(count) }] : []),
    ...(mayRead("audit:read") ? [{ name: "audit" as const, label: text.sections.audit }] : []),
    { name: "related", label: text.sections.related },
  ] as const;
  return (
    <Tabs label={text.sections.label} tabs={tabs} chosen={section} onChoose={setSection}>
      <div className={styles.section}>
        {section === "data" && <Data job={job} />}
        {section === "attempts" && <AttemptsPanel job={job} attempts={attempts} />}
        {section === "log" && <LogPanel id={job.id} running={job.state === "running"} />}
        {section === "items" && <ItemsPanel id={job.id} running={job.state === "running"} />}
        {section === "audit" && <AuditPanel id={job.id} />}
        {section === "related" && <RelatedPanel job={job} />}
      </div>
    </Tabs>
  );
}

function Data({ job }: { job: Job }) {
  const hasMeta = Object.keys(job.meta).length > 0;
  return (
    <div className={styles.data}>
      <Panel title={text.data.args}>
        {Object.keys(job.args).length === 0 ? text.data.noArgs : <JsonTree value={job.args} label={text.data.args} />}
      </Panel>
      <Panel title={text.data.result}>
        {job.result === null ? (
          job.finished_at ? (
            text.data.noArgs
          ) : (
            text.data.noResult
          )
        ) : (
          <JsonTree value={job.result} label={text.data.result} />
        )}
      </Panel>
      {hasMeta && (
        <Panel title={text.data.meta}>
          <JsonTree value={job.meta} label={text.data.meta} />
        </Panel>
      )}
    </div>
  );
}

function factsOf(job: Job, now: number) {
  const name = text.facts;
  const refs = Object.entries(job.refs).map(([key, value]) => `${key} ${String(value)}`);
  return [
    [name.attempt, name.attemptOf(job.attempt, job.max_attempts)],
    [name.priority, numberText(job.priority)],
    [name.lane, job.lane ? <Link href={`/lanes/${encodeURIComponent(job.lane)}`}>{job.lane}</Link> : words.none],
    [name.worker, job.worker ?? words.none],
    [name.created, <Instant key="created" at={job.created_at} />],
    ...(job.finished_at || Date.parse(job.run_after) <= now
      ? []
      : [[name.runAfter, <Instant key="after" at={job.run_after} />] as const]),
    [name.claimed, <Instant key="claimed" at={job.claimed_at} />],
    [name.finished, <Instant key="finished" at={job.finished_at} />],
    ...(job.claimed_at && (job.finished_at ?? job.state === "running")
      ? [[name.ran, <Elapsed key="ran" since={job.claimed_at} until={job.finished_at} />] as const]
      : []),
    ...(job.expires_at && !job.finished_at ? [[name.expires, <Instant key="exp" at={job.expires_at} />] as const] : []),
    ...(job.too_old_at && !job.finished_at ? [[name.tooOld, <Instant key="old" at={job.too_old_at} />] as const] : []),
    ...(job.losses > 0 ? [[name.losses, numberText(job.losses)] as const] : []),
    ...(job.submitted_by ? [[name.by, job.submitted_by] as const] : []),
    ...(job.tenant ? [[name.tenant, job.tenant] as const] : []),
    ...(job.unique_key ? [[name.key, job.unique_key] as const] : []),
    ...(job.gate_key ? [[name.gate, job.gate_key] as const] : []),
    ...(job.backend_job_id ? [[name.backend, job.backend_job_id] as const] : []),
    ...(job.tags.length > 0 ? [[name.tags, job.tags.join(", ")] as const] : []),
    ...(refs.length > 0 ? [[name.refs, refs.join(", ")] as const] : []),
    ...(job.workflow
      ? [
          [
            name.workflow,
            <Link key="flow" href={`/workflows/${job.workflow}`}>
              {job.step ?? job.workflow}
            </Link>,
          ] as const,
        ]
      : []),
  ] as const;
}

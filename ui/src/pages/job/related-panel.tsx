import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import type { Job } from "../../api/client";
import { jobQueries } from "../../api/jobs";
import { useUrlState } from "../../hooks/use-url-state";
import { Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { TextField } from "../../parts/field";
import { JsonDiffTable } from "../../parts/json-diff-table";
import { Panel } from "../../parts/page";
import { Loaded } from "../../parts/page-states";
import { words } from "../../words";
import { durationText } from "../../words/format";
import { quoted } from "../jobs/search-terms";
import { errorFacts } from "./error-text";
import styles from "./job.module.css";
import { RelativesPanel } from "./relatives-panel";

const text = words.job.related;

/** Searches that lead from this job to others. */
function searchesOf(job: Job): readonly (readonly [label: string, search: string])[] {
  return [
    [text.sameKind, `kind:${quoted(job.kind)}`],
    ...Object.entries(job.refs).map(
      ([name, value]) => [text.sameRef(name, String(value)), `ref.${name}:${quoted(String(value))}`] as const,
    ),
    ...(job.submitted_by ? [[text.sameSubmitter(job.submitted_by), `by:${quoted(job.submitted_by)}`] as const] : []),
    ...(job.worker ? [[text.sameWorker(job.worker), `worker:${quoted(job.worker)}`] as const] : []),
    ...(job.lane ? [[text.sameLane(job.lane), `lane:${quoted(job.lane)}`] as const] : []),
  ];
}

export function RelatedPanel({ job }: { job: Job }) {
  const [typed, setTyped] = useState("");
  const [other, setOther] = useUrlState("compare");
  return (
    <div className={styles.data}>
      <RelativesPanel job={job} />
      <Panel title={words.job.sections.related}>
        <ul className={styles.links}>
          {job.workflow && (
            <li>
              <Link href={`/workflows/${job.workflow}`}>{text.sameWorkflow}</Link>
            </li>
          )}
          {searchesOf(job).map(([label, search]) => (
            <li key={search}>
              <Link href={`/jobs?q=${encodeURIComponent(search)}`}>{label}</Link>
            </li>
          ))}
        </ul>
      </Panel>
      <Panel title={text.compareWith}>
        <form
          className={styles.compareForm}
          onSubmit={(event) => {
            event.preventDefault();
            if (typed.trim()) setOther(typed.trim());
          }}
        >
          <TextField label={text.compareId} value={typed} onChange={(event) => setTyped(event.target.value)} />
          <Button type="submit" disabled={!typed.trim()}>
            {words.job.attempts.compare}
          </Button>
        </form>
      </Panel>
      {other && <ComparedJobs job={job} other={other} onClose={() => setOther("")} />}
    </div>
  );
}

function ComparedJobs({ job, other, onClose }: { job: Job; other: string; onClose: () => void }) {
  const query = useQuery(jobQueries.one(other));
  return (
    <Dialog wide title={text.compareTitle} onClose={onClose}>
      <Loaded query={query}>
        {({ data }) => (
          <JsonDiffTable
            label={text.compareTitle}
            before={comparable(data)}
            after={comparable(job)}
            beforeTitle={data.id}
            afterTitle={job.id}
          />
        )}
      </Loaded>
    </Dialog>
  );
}

const span = (from: string | null, to: string | null): string | null =>
  from && to ? durationText(Math.max(0, Date.parse(to) - Date.parse(from)) / 1000) : null;

function comparable(job: Job) {
  const facts = errorFacts(job.errors);
  return {
    kind: job.kind,
    state: job.state,
    args: job.args,
    result: job.result,
    error: facts && [facts.type, facts.message].filter(Boolean).join(": "),
    priority: job.priority,
    lane: job.lane,
    worker: job.worker,
    attempt: job.attempt,
    waited: span(job.created_at, job.claimed_at),
    ran: span(job.claimed_at, job.finished_at),
    tags: job.tags,
    refs: job.refs,
  };
}

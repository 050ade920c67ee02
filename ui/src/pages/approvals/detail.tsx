import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { approvalQueries } from "../../api/approvals";
import type { Job } from "../../api/client";
import { approveJob, jobPartQueries, rejectJob } from "../../api/jobs";
import { useOrder } from "../../hooks/use-order";
import { useMayOrder, useMe } from "../../hooks/use-session";
import { Button } from "../../parts/button";
import { ConfirmOrder } from "../../parts/confirm-order";
import { JsonDiffTable } from "../../parts/json-diff-table";
import { JsonTree } from "../../parts/json-tree";
import { Panel } from "../../parts/page";
import { Loaded } from "../../parts/page-states";
import { Elapsed, Instant } from "../../parts/time";
import { words } from "../../words";
import { quoted } from "../jobs/search-terms";
import styles from "./approvals.module.css";
import { type Standing, standingOf } from "./standing";

const text = words.approvals;

/** One job that awaits approval: who asked, what it would do compared with the last run, and the decision. */
export function ApprovalDetail({ job, onOpen }: { job: Job; onOpen: () => void }) {
  const approval = useQuery(jobPartQueries.approval(job.id));
  const me = useMe();
  const standing = approval.data ? standingOf(approval.data, job.submitted_by, me?.subject ?? null) : null;
  return (
    <div className={styles.detail}>
      <Panel
        title={job.kind}
        actions={
          <Button tone="quiet" onClick={onOpen}>
            {text.open}
          </Button>
        }
      >
        <p className={styles.facts}>
          <Link href={`/jobs/${job.id}`}>
            <code>{job.id}</code>
          </Link>
          {job.submitted_by && (
            <span>
              {text.column.by} {job.submitted_by}
            </span>
          )}
          <span>
            {text.column.waits} <Elapsed since={job.created_at} />
          </span>
          {approval.data?.answer_by && (
            <span>
              {text.expires} <Instant at={approval.data.answer_by} />
            </span>
          )}
        </p>
        {approval.data && (approval.data.needed > 1 || approval.data.approvers.length > 0) && (
          <p>
            {text.needed(approval.data.approvers.length, approval.data.needed)}
            {approval.data.approvers.length > 0 && `. ${text.approvers(approval.data.approvers.join(", "))}`}
          </p>
        )}
        <Decision job={job} standing={standing} />
      </Panel>
      <LastRun job={job} />
    </div>
  );
}

function Decision({ job, standing }: { job: Job; standing: Standing | null }) {
  const mayOrder = useMayOrder();
  const [asked, setAsked] = useState<"approve" | "reject" | null>(null);
  const order = useOrder(
    ({ action, note }: { action: "approve" | "reject"; note: string | null }) =>
      action === "approve" ? approveJob(job.id, { note }) : rejectJob(job.id, { note }),
    {
      done: () => (asked === "reject" ? words.job.orders.done.reject : words.job.orders.done.approve),
      refresh: [["approvals", "pending"], ["jobs"]],
      toastError: false,
      onDone: () => setAsked(null),
    },
  );
  if (!mayOrder("jobs:approve", job)) return <p className={styles.hint}>{words.errors.forbidden("jobs:approve")}</p>;
  return (
    <>
      {standing === "own-job" && <p className={styles.hint}>{text.ownJob}</p>}
      {standing === "already-approved" && <p className={styles.hint}>{text.alreadyApproved}</p>}
      <p className={styles.decide}>
        <Button
          tone="primary"
          icon="check"
          disabled={standing === "own-job" || standing === "already-approved"}
          onClick={() => setAsked("approve")}
        >
          {text.approve}
        </Button>
        <Button tone="danger" onClick={() => setAsked("reject")}>
          {text.reject}
        </Button>
      </p>
      {asked && (
        <ConfirmOrder
          title={`${text[asked]}: ${job.kind}`}
          action={words.job.orders.confirm[asked]}
          danger={asked === "reject"}
          note
          busy={order.isPending}
          error={order.error}
          onConfirm={(note) => order.mutate({ action: asked, note })}
          onClose={() => setAsked(null)}
        >
          <p>{words.job.orders.asked[asked]}</p>
        </ConfirmOrder>
      )}
    </>
  );
}

function LastRun({ job }: { job: Job }) {
  const query = useQuery(approvalQueries.lastRun(job, `kind:${quoted(job.kind)}`));
  return (
    <Panel title={text.diffTitle}>
      <Loaded query={query} lines={4}>
        {(last) =>
          last ? (
            <div className={styles.diff}>
              <JsonDiffTable
                label={text.diffTitle}
                before={last.args}
                after={job.args}
                beforeTitle={text.lastRun}
                afterTitle={text.thisRun}
              />
              <p className={styles.hint}>
                {text.lastRunAt}: <Link href={`/jobs/${last.id}`}>{last.id}</Link>, <Instant at={last.finished_at} />
              </p>
            </div>
          ) : (
            <div className={styles.diff}>
              <JsonTree value={job.args} label={text.args} />
              <p className={styles.hint}>{text.firstRun}</p>
            </div>
          )
        }
      </Loaded>
    </Panel>
  );
}

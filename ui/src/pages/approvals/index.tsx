import { useInfiniteQuery } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { useLocation } from "wouter";
import { approvalQueries } from "../../api/approvals";
import type { Job } from "../../api/client";
import { useMayOrder } from "../../hooks/use-session";
import { useUrlState } from "../../hooks/use-url-state";
import type { ChangedJob } from "../../live/messages";
import { useJobChanges } from "../../live/use-live";
import { type BulkAction, BulkOrderDialog, type BulkTarget } from "../../parts/bulk-order";
import { Button } from "../../parts/button";
import { TextField } from "../../parts/field";
import { Page, Panel } from "../../parts/page";
import { Empty, Loaded } from "../../parts/page-states";
import { type Column, Table } from "../../parts/table";
import { Elapsed, Instant } from "../../parts/time";
import { words } from "../../words";
import { numberText } from "../../words/format";
import { extended, NOTHING, type Selection, toggled } from "../jobs/selection";
import styles from "./approvals.module.css";
import { ApprovalDetail } from "./detail";
import { firstArgument } from "./first-argument";

const text = words.approvals;

export default function ApprovalsPage() {
  const [search, setSearch] = useUrlState("q");
  const [chosen, setChosen] = useUrlState("job");
  const [, navigate] = useLocation();
  const mayOrder = useMayOrder();
  const [typed, setTyped] = useState(search);
  const [selection, setSelection] = useState<Selection>(NOTHING);
  const [order, setOrder] = useState<{ action: BulkAction; target: BulkTarget } | null>(null);
  const query = useInfiniteQuery(approvalQueries.pending(search));
  const { refetch } = query;
  useJobChanges(
    useCallback(
      (changes: readonly ChangedJob[]) => {
        if (changes.some((change) => change.state === "pending")) void refetch();
      },
      [refetch],
    ),
  );
  return (
    <Page title={text.title}>
      <form
        role="search"
        className={styles.search}
        onSubmit={(event) => {
          event.preventDefault();
          setSearch(typed.trim());
        }}
      >
        <TextField
          data-search
          label={text.search}
          placeholder="kind:payout.* by:ada"
          value={typed}
          onChange={(event) => setTyped(event.target.value)}
        />
      </form>
      <Loaded query={query} lines={8}>
        {(data) => {
          const jobs = data.pages.flatMap((page) => page.items);
          if (jobs.length === 0)
            return search ? <Empty title={text.noMatch} /> : <Empty title={text.empty}>{text.emptyText}</Empty>;
          const ids = jobs.map((job) => job.id);
          const shown = jobs.find((job) => job.id === chosen) ?? jobs[0];
          const selected = ids.filter((id) => selection.ids.has(id));
          const target: BulkTarget = { ids: selected };
          return (
            <div className={styles.layout}>
              <Panel flush>
                {mayOrder("jobs:approve") && selected.length > 0 && (
                  <div className={styles.bar}>
                    <span role="status">{words.jobs.selected(numberText(selected.length))}</span>
                    <Button tone="primary" onClick={() => setOrder({ action: "approve", target })}>
                      {text.approve}
                    </Button>
                    <Button tone="danger" onClick={() => setOrder({ action: "reject", target })}>
                      {text.reject}
                    </Button>
                    <Button tone="quiet" onClick={() => setSelection(NOTHING)}>
                      {words.jobs.clearSelection}
                    </Button>
                  </div>
                )}
                <Table
                  label={text.title}
                  rows={jobs}
                  columns={[selectColumn(selection, setSelection), ...COLUMNS]}
                  rowKey={(job) => job.id}
                  selected={new Set(shown ? [shown.id] : [])}
                  onOpen={(job) => setChosen(job.id, { replace: true })}
                  onSelect={(job, range) =>
                    setSelection(range ? extended(selection, job.id, ids) : toggled(selection, job.id))
                  }
                  onKey={(key, job) => {
                    if (key === "a" && mayOrder("jobs:approve", job))
                      setOrder({ action: "approve", target: { ids: [job.id] } });
                    if (key === "r" && mayOrder("jobs:approve", job))
                      setOrder({ action: "reject", target: { ids: [job.id] } });
                  }}
                  onEnd={() => {
                    if (query.hasNextPage && !query.isFetching) void query.fetchNextPage();
                  }}
                />
              </Panel>
              {shown && <ApprovalDetail key={shown.id} job={shown} onOpen={() => navigate(`/jobs/${shown.id}`)} />}
            </div>
          );
        }}
      </Loaded>
      {order && (
        <BulkOrderDialog
          {...order}
          onClose={() => setOrder(null)}
          onEnd={() => {
            setSelection(NOTHING);
            void query.refetch();
          }}
        />
      )}
    </Page>
  );
}

const COLUMNS: readonly Column<Job>[] = [
  {
    key: "kind",
    title: text.column.kind,
    cell: (job) => {
      const argument = firstArgument(job);
      return (
        <>
          <span title={job.kind}>{job.kind}</span>
          {argument && (
            <span title={argument} className={styles.argument}>
              {argument}
            </span>
          )}
        </>
      );
    },
  },
  {
    key: "by",
    title: text.column.by,
    width: "8rem",
    hideBelow: "phone",
    cell: (job) => job.submitted_by ?? words.none,
  },
  {
    key: "waits",
    title: text.column.waits,
    width: "5.5rem",
    align: "end",
    cell: (job) => <Elapsed since={job.created_at} />,
  },
  {
    key: "answerBy",
    title: text.column.answerBy,
    width: "6rem",
    align: "end",
    hideBelow: "tablet",
    cell: (job) => <Instant at={job.expires_at} />,
  },
];

function selectColumn(selection: Selection, setSelection: (selection: Selection) => void): Column<Job> {
  return {
    key: "select",
    title: "",
    heading: <span className="visually-hidden">{words.jobs.selectAll}</span>,
    width: "2.75rem",
    cell: (job) => (
      <input
        type="checkbox"
        className={styles.check}
        aria-label={words.jobs.select(job.id)}
        checked={selection.ids.has(job.id)}
        onChange={() => setSelection(toggled(selection, job.id))}
      />
    ),
  };
}

import { useInfiniteQuery } from "@tanstack/react-query";
import { useCallback } from "react";
import { Link, useLocation } from "wouter";
import { workflowHref } from "../../api/searches";
import { type Workflow, workflowQueries, type WorkflowState } from "../../api/workflows";
import { useUrlState } from "../../hooks/use-url-state";
import { SelectField, TextField } from "../../parts/field";
import { Meter } from "../../parts/meter";
import { Page, Panel } from "../../parts/page";
import { Empty, Loaded } from "../../parts/page-states";
import { WorkflowStateBadge } from "../../parts/state-badge";
import { type Column, Table } from "../../parts/table";
import { Elapsed, Instant } from "../../parts/time";
import { words } from "../../words";
import { numberText } from "../../words/format";
import styles from "./workflows.module.css";

const text = words.workflows;
const STATES: WorkflowState[] = [
  "running",
  "compensating",
  "completed",
  "completed_with_errors",
  "failed",
  "cancelled",
];

const COLUMNS: Column<Workflow>[] = [
  { key: "name", title: text.name, cell: (flow) => <Link href={workflowHref(flow.id)}>{flow.name}</Link> },
  { key: "state", title: text.state, width: "11rem", cell: (flow) => <WorkflowStateBadge state={flow.state} /> },
  { key: "id", title: text.id, width: "12rem", hideBelow: "laptop", cell: (flow) => flow.id },
  { key: "steps", title: text.steps, width: "13rem", hideBelow: "tablet", cell: (flow) => <Steps flow={flow} /> },
  {
    key: "failed",
    title: text.failed,
    width: "5rem",
    align: "end",
    hideBelow: "phone",
    cell: (flow) => (flow.failed > 0 ? <strong className={styles.failed}>{numberText(flow.failed)}</strong> : "0"),
  },
  {
    key: "created",
    title: text.created,
    width: "7rem",
    align: "end",
    hideBelow: "phone",
    cell: (flow) => <Instant at={flow.created_at} />,
  },
  {
    key: "took",
    title: text.took,
    width: "6rem",
    align: "end",
    hideBelow: "phone",
    cell: (flow) => <Elapsed since={flow.created_at} until={flow.finished_at} />,
  },
];

function Steps({ flow }: { flow: Workflow }) {
  const done = flow.total - flow.open;
  return (
    <span className={styles.steps}>
      <Meter
        value={done}
        max={flow.total}
        label={text.stepsDone(numberText(done), numberText(flow.total))}
        tone={flow.failed > 0 ? "danger" : "accent"}
      />
      <span>
        {numberText(done)}/{numberText(flow.total)}
      </span>
    </span>
  );
}

export default function WorkflowsPage() {
  const [state, setState] = useUrlState("state");
  const [name, setName] = useUrlState("name");
  const [, navigate] = useLocation();
  const chosen = STATES.find((each) => each === state);
  const list = useInfiniteQuery({
    ...workflowQueries.list({ ...(chosen ? { state: [chosen] } : {}), ...(name ? { name } : {}) }),
    refetchInterval: 5000,
  });
  const { fetchNextPage, hasNextPage, isFetchingNextPage } = list;
  const more = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [fetchNextPage, hasNextPage, isFetchingNextPage]);
  return (
    <Page title={text.title} subtitle={text.about}>
      <div className={styles.filters}>
        <SelectField label={text.state} value={chosen ?? ""} onChange={(event) => setState(event.target.value)}>
          <option value="">{text.any}</option>
          {STATES.map((each) => (
            <option key={each} value={each}>
              {each === "compensating" ? text.compensating : words.states[each]}
            </option>
          ))}
        </SelectField>
        <TextField
          label={text.findName}
          type="search"
          data-search
          value={name}
          onChange={(event) => setName(event.target.value, { replace: true })}
        />
      </div>
      <Panel flush>
        <Loaded query={list}>
          {({ pages }) => {
            const rows = pages.flatMap((page) => page.items);
            if (rows.length === 0) return chosen || name ? <NoMatch /> : <NoWorkflows />;
            return (
              <Table
                label={text.title}
                rows={rows}
                columns={COLUMNS}
                rowKey={(flow) => flow.id}
                onOpen={(flow) => navigate(workflowHref(flow.id))}
                onEnd={more}
              />
            );
          }}
        </Loaded>
      </Panel>
    </Page>
  );
}

function NoMatch() {
  return <Empty title={text.noMatch}>{text.noMatchWhy}</Empty>;
}

function NoWorkflows() {
  return (
    <Empty title={text.empty}>
      <p>{text.emptyWhy}</p>
      <pre className={styles.snippet}>{text.emptySnippet}</pre>
    </Empty>
  );
}

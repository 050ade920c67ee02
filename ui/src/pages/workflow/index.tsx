import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { useParams } from "wouter";
import { type WorkflowGraph, workflowQueries } from "../../api/workflows";
import { useUrlChoice, useUrlState } from "../../hooks/use-url-state";
import { classNames } from "../../parts/class-names";
import { CopyButton } from "../../parts/copy-button";
import { Meter } from "../../parts/meter";
import { Facts, Page, Panel } from "../../parts/page";
import { Loaded, Loading } from "../../parts/page-states";
import { WorkflowStateBadge } from "../../parts/state-badge";
import { Tabs } from "../../parts/tabs";
import { Elapsed, Instant } from "../../parts/time";
import { words } from "../../words";
import { numberText } from "../../words/format";
import { ChosenStep } from "./chosen-step";
import { GanttView } from "./gantt-view";
import { StepsTable } from "./steps-table";
import { WorkflowOrders } from "./workflow-orders";
import styles from "./workflow.module.css";

const text = words.workflows;
const TABS = ["graph", "gantt", "table"] as const;
/** Milliseconds between two reads while it runs; a large graph is read less often. */
const readEvery = (graph: WorkflowGraph | undefined): number | false =>
  graph?.finished_at === null ? (graph.nodes.length > 200 ? 6000 : 2000) : false;

const GraphView = lazy(() => import("./graph-view"));

export default function WorkflowPage() {
  const { id } = useParams<{ id: string }>();
  const one = useQuery({ ...workflowQueries.one(id), refetchInterval: ({ state }) => readEvery(state.data) });
  const graph = one.data;
  return (
    <Page
      title={graph ? text.workflow(graph.name) : text.workflow("")}
      badge={graph && <WorkflowStateBadge state={graph.state} />}
      subtitle={
        <span className={styles.id}>
          {id} <CopyButton text={id} />
        </span>
      }
      actions={graph && <WorkflowOrders graph={graph} />}
    >
      <Loaded query={one}>
        {(data) => (
          <>
            <WorkflowFacts graph={data} />
            <WorkflowSteps graph={data} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

function WorkflowFacts({ graph }: { graph: WorkflowGraph }) {
  const done = graph.total - graph.open;
  const stepsDone = text.stepsDone(numberText(done), numberText(graph.total));
  return (
    <Panel>
      <div className={styles.facts}>
        <Meter value={done} max={graph.total} label={stepsDone} tone={graph.failed > 0 ? "danger" : "accent"} />
        <Facts
          facts={[
            [text.steps, stepsDone],
            [text.failed, numberText(graph.failed)],
            [text.created, <Instant key="created" at={graph.created_at} />],
            [text.took, <Elapsed key="took" since={graph.created_at} until={graph.finished_at} />],
            [text.by, graph.submitted_by ?? words.none],
            ...(graph.tenant ? [[text.tenant, graph.tenant] as const] : []),
            ...(graph.verdict ? [[text.verdict, graph.verdict] as const] : []),
            ...(graph.undo_error ? [[text.undoError, graph.undo_error] as const] : []),
          ]}
        />
      </div>
    </Panel>
  );
}

function WorkflowSteps({ graph }: { graph: WorkflowGraph }) {
  const [tab, setTab] = useUrlChoice("view", TABS);
  const [chosen, setChosen] = useUrlState("step");
  const choose = (step: string) => setChosen(step, { replace: true });
  return (
    <div className={classNames(styles.columns, (tab === "graph" || chosen) && styles.beside)}>
      <div className={styles.views}>
        <Tabs
          label={text.view}
          tabs={TABS.map((name) => ({ name, label: text.tabs[name] }))}
          chosen={tab}
          onChoose={setTab}
        >
          <Panel flush>
            {tab === "graph" && (
              <Suspense fallback={<Loading />}>
                <GraphView graph={graph} chosen={chosen || null} onChoose={choose} />
              </Suspense>
            )}
            {tab === "gantt" && <GanttView nodes={graph.nodes} onChoose={choose} />}
            {tab === "table" && <StepsTable graph={graph} onChoose={choose} />}
          </Panel>
        </Tabs>
      </div>
      {(tab === "graph" || chosen) && (
        <div className={styles.aside}>
          <ChosenStep graph={graph} node={graph.nodes.find((node) => node.name === chosen)} />
        </div>
      )}
    </div>
  );
}

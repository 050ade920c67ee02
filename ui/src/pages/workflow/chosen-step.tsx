import { useState } from "react";
import { Link } from "wouter";
import { jobHref } from "../../api/searches";
import { retryWorkflow, type WorkflowGraph, type WorkflowNode } from "../../api/workflows";
import { useOrder } from "../../hooks/use-order";
import { useMayOrder } from "../../hooks/use-session";
import { Button } from "../../parts/button";
import { ConfirmOrder } from "../../parts/confirm-order";
import { JsonTree } from "../../parts/json-tree";
import { Facts, Panel } from "../../parts/page";
import { StateBadge } from "../../parts/state-badge";
import { Elapsed, Instant } from "../../parts/time";
import { words } from "../../words";
import { numberText } from "../../words/format";
import styles from "./workflow.module.css";

const text = words.workflows;

/** The step that was chosen in the graph or a table: its facts, its error, and the orders it can take. */
export function ChosenStep({ graph, node }: { graph: WorkflowGraph; node: WorkflowNode | undefined }) {
  if (!node)
    return (
      <Panel title={text.step}>
        <p className={styles.hint}>{text.noStep}</p>
      </Panel>
    );
  return (
    <Panel title={node.name} actions={<StateBadge state={node.state} />}>
      <div className={styles.step}>
        <Facts facts={factsOf(node)} />
        {node.errors && <JsonTree label={text.error} value={node.errors} />}
        <div className={styles.orders}>
          <Link href={jobHref(node.job_id)}>{text.openJob}</Link>
          <RetryFrom graph={graph} node={node} />
        </div>
      </div>
    </Panel>
  );
}

function factsOf(node: WorkflowNode): (readonly [string, React.ReactNode])[] {
  const facts: (readonly [string, React.ReactNode])[] = [
    [text.kind, node.kind],
    [text.attempt, text.attempts(numberText(node.attempt), numberText(node.max_attempts))],
    [text.started, <Instant key="started" at={node.claimed_at} />],
    [text.ran, <Elapsed key="ran" since={node.claimed_at} until={node.finished_at} />],
  ];
  if (node.signal) facts.push([text.signal, node.signal]);
  if (node.undo) facts.push([text.undo, node.undo]);
  if (node.undoes) facts.push([text.undoes, node.undoes]);
  return facts;
}

function RetryFrom({ graph, node }: { graph: WorkflowGraph; node: WorkflowNode }) {
  const mayOrder = useMayOrder();
  const [asked, setAsked] = useState(false);
  const retry = useOrder(() => retryWorkflow(graph.id, node.name), {
    done: text.retried,
    refresh: [["workflows"], ["jobs"]],
    onDone: () => setAsked(false),
    toastError: false,
  });
  if (!mayOrder("jobs:retry") || node.finished_at === null) return null;
  return (
    <>
      <Button icon="retry" onClick={() => setAsked(true)}>
        {text.retryFrom}
      </Button>
      {asked && (
        <ConfirmOrder
          title={text.retryFromTitle(node.name)}
          action={text.retryFrom}
          busy={retry.isPending}
          error={retry.error}
          onConfirm={() => retry.mutate(undefined)}
          onClose={() => {
            setAsked(false);
            retry.reset();
          }}
        >
          {text.retryFromText}
        </ConfirmOrder>
      )}
    </>
  );
}

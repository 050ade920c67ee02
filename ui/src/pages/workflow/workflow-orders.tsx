import { useState } from "react";
import { cancelWorkflow, retryWorkflow, type WorkflowGraph } from "../../api/workflows";
import { useOrder } from "../../hooks/use-order";
import { useMayOrder } from "../../hooks/use-session";
import { Button } from "../../parts/button";
import { ConfirmOrder } from "../../parts/confirm-order";
import { words } from "../../words";
import { numberText } from "../../words/format";

const text = words.workflows;

interface Asked {
  order: "cancel" | "retry";
  note: string | null;
}

/** Cancel a workflow that goes on, retry one that ended badly. */
export function WorkflowOrders({ graph }: { graph: WorkflowGraph }) {
  const mayOrder = useMayOrder();
  const [asked, setAsked] = useState<Asked["order"] | null>(null);
  const give = useOrder(
    ({ order, note }: Asked) =>
      order === "cancel" ? cancelWorkflow(graph.id, note ?? undefined) : retryWorkflow(graph.id, null),
    {
      done: asked === "cancel" ? text.cancelled : text.retried,
      refresh: [["workflows"], ["jobs"]],
      onDone: () => setAsked(null),
      toastError: false,
    },
  );
  const ended = graph.finished_at !== null;
  const retryable = ended && graph.state !== "completed";
  return (
    <>
      {!ended && mayOrder("jobs:cancel") && (
        <Button tone="danger" icon="cross" disabled={graph.cancel_requested} onClick={() => setAsked("cancel")}>
          {graph.cancel_requested ? text.cancelRequested : text.cancel}
        </Button>
      )}
      {retryable && mayOrder("jobs:retry") && (
        <Button icon="retry" onClick={() => setAsked("retry")}>
          {text.retry}
        </Button>
      )}
      {asked && (
        <ConfirmOrder
          title={asked === "cancel" ? text.cancelTitle(graph.name) : text.retryTitle(graph.name)}
          action={text[asked]}
          danger={asked === "cancel"}
          note={asked === "cancel"}
          busy={give.isPending}
          error={give.error}
          onConfirm={(note) => give.mutate({ order: asked, note })}
          onClose={() => {
            setAsked(null);
            give.reset();
          }}
        >
          {asked === "cancel" ? text.cancelText(numberText(graph.open)) : text.retryText}
        </ConfirmOrder>
      )}
    </>
  );
}

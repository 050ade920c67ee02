import { useState } from "react";
import { type LaneLoad, type LaneOrder, orderLane } from "../../api/lanes";
import { useOrder } from "../../hooks/use-order";
import { useMayOrder } from "../../hooks/use-session";
import { ConfirmOrder } from "../../parts/confirm-order";
import { words } from "../../words";
import { countText, numberText } from "../../words/format";

const text = words.lanes;

/** The orders that a lane can take now, and the dialog that asks before one is given. */
export function useLaneOrders(lane: LaneLoad) {
  const mayOrder = useMayOrder();
  const [asked, setAsked] = useState<LaneOrder | null>(null);
  const order = useOrder((which: LaneOrder) => orderLane(lane.name, which), {
    done: text.done[asked ?? "pause"],
    refresh: [["lanes"], ["stats", "overview"], ["system", "audit"]],
    onDone: () => setAsked(null),
    toastError: false,
  });
  const possible: LaneOrder[] = !mayOrder("workers:manage", { lane: lane.name })
    ? []
    : lane.enabled
      ? ["pause"]
      : ["resume"];
  const running = numberText(lane.running);
  const texts: Record<LaneOrder, [title: string, text: string]> = {
    pause: [text.pauseTitle(lane.name), text.pauseText(running)],
    resume: [text.resumeTitle(lane.name), text.resumeText(countText(lane.due))],
  };
  const dialog = asked && (
    <ConfirmOrder
      title={texts[asked][0]}
      action={text[asked]}
      danger={asked !== "resume"}
      busy={order.isPending}
      error={order.error}
      onConfirm={() => order.mutate(asked)}
      onClose={() => {
        setAsked(null);
        order.reset();
      }}
    >
      {texts[asked][1]}
    </ConfirmOrder>
  );
  return { possible, ask: setAsked, dialog };
}

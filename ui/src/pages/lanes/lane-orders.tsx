import { useState } from "react";
import { type LaneLoad, type LaneOrder, orderLane } from "../../api/lanes";
import { useOrder } from "../../hooks/use-order";
import { useMayOrder } from "../../hooks/use-session";
import { ConfirmOrder } from "../../parts/confirm-order";
import { words } from "../../words";
import { countText, numberText } from "../../words/format";

const text = words.lanes;

interface LaneOrderDialogProps {
  lane: LaneLoad;
  asked: LaneOrder;
  onClose: () => void;
}

/** Asks before a lane is paused or resumed. */
export function LaneOrderDialog({ lane, asked, onClose }: LaneOrderDialogProps) {
  const order = useOrder((which: LaneOrder) => orderLane(lane.name, which), {
    done: text.done[asked],
    refresh: [["lanes"], ["stats", "overview"], ["system", "audit"]],
    onDone: onClose,
    toastError: false,
  });
  const running = numberText(lane.running);
  const texts: Record<LaneOrder, [title: string, text: string]> = {
    pause: [text.pauseTitle(lane.name), text.pauseText(running)],
    resume: [text.resumeTitle(lane.name), text.resumeText(countText(lane.due))],
  };
  return (
    <ConfirmOrder
      title={texts[asked][0]}
      action={text[asked]}
      danger={asked !== "resume"}
      busy={order.isPending}
      error={order.error}
      onConfirm={() => order.mutate(asked)}
      onClose={onClose}
    >
      {texts[asked][1]}
    </ConfirmOrder>
  );
}

/** The orders that a lane can take now, and the dialog that asks before one is given. */
export function useLaneOrders(lane: LaneLoad) {
  const mayOrder = useMayOrder();
  const [asked, setAsked] = useState<LaneOrder | null>(null);
  const mine = mayOrder("workers:manage", { lane: lane.name });
  const possible: LaneOrder[] = mine ? [lane.enabled ? "pause" : "resume"] : [];
  const dialog = asked && <LaneOrderDialog lane={lane} asked={asked} onClose={() => setAsked(null)} />;
  return { possible, ask: setAsked, dialog };
}

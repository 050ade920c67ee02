import { useState } from "react";
import { useLocation } from "wouter";
import { deleteSchedule, orderSchedule, runSchedule, type Schedule } from "../../api/schedules";
import { useOrder } from "../../hooks/use-order";
import { useMayOrder } from "../../hooks/use-session";
import { ConfirmOrder } from "../../parts/confirm-order";
import type { MenuItem } from "../../parts/menu";
import { words } from "../../words";
import { BackfillDialog } from "./backfill";

const text = words.schedules;
type Asked = "runNow" | "pause" | "resume" | "reset" | "remove" | "backfill";

function useConfirmed(schedule: Schedule, asked: Asked | null, close: () => void) {
  const [location, navigate] = useLocation();
  const { name } = schedule;
  return useOrder(
    async (which: Asked) => {
      if (which === "runNow") return text.ran((await runSchedule(name)).id);
      if (which === "remove") {
        await deleteSchedule(name);
        return text.removed(name);
      }
      if (which === "backfill") return "";
      await orderSchedule(name, which);
      return text.done[which];
    },
    {
      done: (message) => message,
      refresh: [["schedules"], ["jobs", "list"], ["system", "audit"]],
      onDone: () => {
        if (asked === "remove" && location !== "/schedules") navigate("/schedules");
        close();
      },
      toastError: false,
    },
  );
}

/** The orders that a schedule can take now, as items of a menu, and the dialog of the one that was chosen. */
export function useScheduleOrders(schedule: Schedule) {
  const mayOrder = useMayOrder();
  const [asked, setAsked] = useState<Asked | null>(null);
  const close = () => {
    setAsked(null);
    order.reset();
  };
  const order = useConfirmed(schedule, asked, () => setAsked(null));
  const allowed = mayOrder("schedules:manage", { kind: schedule.kind });
  const toggle = schedule.enabled ? "pause" : "resume";
  const items: MenuItem[] = !allowed
    ? []
    : [
        { label: text.runNow, icon: "play", onSelect: () => setAsked("runNow") },
        { label: text[toggle], icon: schedule.enabled ? "pause" : "play", onSelect: () => setAsked(toggle) },
        { label: text.backfill, icon: "retry", onSelect: () => setAsked("backfill") },
        ...(schedule.declared ? [{ label: text.reset, icon: "edit" as const, onSelect: () => setAsked("reset") }] : []),
        { label: text.remove, icon: "trash", danger: true, onSelect: () => setAsked("remove") },
      ];
  const dialog =
    asked === null ? null : asked === "backfill" ? (
      <BackfillDialog schedule={schedule} onClose={close} />
    ) : (
      <ConfirmOrder
        title={text[`${asked}Title`](schedule.name)}
        action={text[asked]}
        danger={asked === "remove" || asked === "pause"}
        busy={order.isPending}
        error={order.error}
        onConfirm={() => order.mutate(asked)}
        onClose={close}
      >
        <p>{text[`${asked}Text`]}</p>
        {asked === "remove" && schedule.declared && <p>{text.removeDeclared}</p>}
      </ConfirmOrder>
    );
  return { items, dialog };
}

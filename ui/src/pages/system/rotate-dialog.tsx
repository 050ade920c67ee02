import type { QueryKey } from "@tanstack/react-query";
import { useState } from "react";
import { useOrder } from "../../hooks/use-order";
import { Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { TextField } from "../../parts/field";
import { OrderError } from "../../parts/order-error";
import { words } from "../../words";

interface RotateDialogProps<Made> {
  title: string;
  about: string;
  overlapLabel: string;
  /** How long the old secret stays, as first offered. */
  overlap: string;
  action: string;
  rotate: (overlap: string) => Promise<Made>;
  refresh: QueryKey[];
  onClose: () => void;
  onMade: (made: Made) => void;
}

/** Asks how long the old secret stays before a new one is made. */
export function RotateDialog<Made>(props: RotateDialogProps<Made>) {
  const [overlap, setOverlap] = useState(props.overlap);
  const rotate = useOrder(() => props.rotate(overlap.trim()), {
    refresh: props.refresh,
    onDone: props.onMade,
    toastError: false,
  });
  return (
    <Dialog
      title={props.title}
      onClose={props.onClose}
      footer={
        <>
          <Button onClick={props.onClose}>{words.cancel}</Button>
          <Button tone="primary" busy={rotate.isPending} onClick={() => rotate.mutate(undefined)}>
            {props.action}
          </Button>
        </>
      }
    >
      <p>{props.about}</p>
      <TextField label={props.overlapLabel} value={overlap} onChange={(event) => setOverlap(event.target.value)} />
      <OrderError error={rotate.error} />
    </Dialog>
  );
}

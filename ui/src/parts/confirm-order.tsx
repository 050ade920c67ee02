import { type ReactNode, useState } from "react";
import { words } from "../words";
import { Button } from "./button";
import { Dialog } from "./dialog";
import { TextAreaField, TextField } from "./field";
import { OrderError } from "./order-error";

interface ConfirmOrderProps {
  title: string;
  /** What will happen, in a sentence or two. */
  children: ReactNode;
  /** The verb on the button: "Cancel 12 jobs", never "OK". */
  action: string;
  danger?: boolean;
  /** Offers a note, which is passed on. */
  note?: boolean;
  /** A text that must be typed first, for orders that destroy something. */
  typed?: string;
  busy?: boolean;
  error?: Error | null;
  onConfirm: (note: string | null) => void;
  onClose: () => void;
}

/** Asks before an order is given. Cancelling is the other button, the key Escape, or a press outside. */
export function ConfirmOrder(props: ConfirmOrderProps) {
  const [note, setNote] = useState("");
  const [typed, setTyped] = useState("");
  const ready = !props.typed || typed === props.typed;
  return (
    <Dialog
      title={props.title}
      onClose={props.onClose}
      footer={
        <>
          <Button onClick={props.onClose}>{words.cancel}</Button>
          <Button
            tone={props.danger ? "danger" : "primary"}
            busy={props.busy ?? false}
            disabled={!ready || props.busy === true}
            onClick={() => props.onConfirm(note.trim() || null)}
          >
            {props.action}
          </Button>
        </>
      }
    >
      <div>{props.children}</div>
      {props.note && (
        <TextAreaField
          label={words.note}
          hint={words.noteHint}
          rows={2}
          maxLength={1000}
          value={note}
          onChange={(event) => setNote(event.target.value)}
        />
      )}
      {props.typed && (
        <TextField
          label={words.typeToConfirm(props.typed)}
          value={typed}
          autoComplete="off"
          onChange={(event) => setTyped(event.target.value)}
        />
      )}
      <OrderError error={props.error} />
    </Dialog>
  );
}

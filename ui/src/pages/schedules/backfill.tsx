import { useState } from "react";
import { type Backfill, backfillSchedule, type Schedule } from "../../api/schedules";
import { useOrder } from "../../hooks/use-order";
import { Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { TextField } from "../../parts/field";
import { OrderError } from "../../parts/order-error";
import { Instant } from "../../parts/time";
import { words } from "../../words";
import { numberText } from "../../words/format";
import styles from "./schedules.module.css";

const text = words.schedules;
const HOUR = 3_600_000;
const SHOWN = 20;

/** A time as the field of the browser writes it: local, to the minute. */
function localInput(time: number): string {
  const date = new Date(time);
  return new Date(time - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** Asks for a stretch of time, shows which slots in it have no job yet, and enqueues these. */
export function BackfillDialog({ schedule, onClose }: { schedule: Schedule; onClose: () => void }) {
  const [opened] = useState(() => Date.now());
  const [from, setFrom] = useState(() => localInput(opened - 24 * HOUR));
  const [to, setTo] = useState(() => localInput(opened));
  const [preview, setPreview] = useState<Backfill | null>(null);
  const range = () => ({ start: new Date(from).toISOString(), end: new Date(to).toISOString() });
  const look = useOrder(() => backfillSchedule(schedule.name, { ...range(), dry_run: true }), {
    refresh: [],
    onDone: setPreview,
    toastError: false,
  });
  const fill = useOrder(() => backfillSchedule(schedule.name, { ...range(), dry_run: false }), {
    done: ({ jobs }) => text.backfilled(numberText(jobs.length)),
    refresh: [["schedules"], ["jobs", "list"]],
    onDone: onClose,
    toastError: false,
  });
  const valid = from !== "" && to !== "" && from < to;
  const set = (change: (value: string) => void) => (event: React.ChangeEvent<HTMLInputElement>) => {
    change(event.target.value);
    setPreview(null);
  };
  return (
    <Dialog
      title={text.backfillTitle(schedule.name)}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{words.cancel}</Button>
          {preview && preview.slots.length > 0 ? (
            <Button tone="primary" busy={fill.isPending} onClick={() => fill.mutate(undefined)}>
              {text.backfillNow(numberText(preview.slots.length))}
            </Button>
          ) : (
            <Button
              tone="primary"
              busy={look.isPending}
              disabled={!valid || look.isPending}
              onClick={() => look.mutate(undefined)}
            >
              {text.preview}
            </Button>
          )}
        </>
      }
    >
      <p>{text.backfillText}</p>
      <div className={styles.range}>
        <TextField label={text.from} type="datetime-local" value={from} max={to} onChange={set(setFrom)} />
        <TextField label={text.to} type="datetime-local" value={to} min={from} onChange={set(setTo)} />
      </div>
      {preview && (
        <div role="status">
          <p>
            {preview.slots.length === 0
              ? text.nothingToBackfill
              : text.previewed(numberText(preview.slots.length), numberText(preview.already.length))}
          </p>
          <ul className={styles.slots}>
            {preview.slots.slice(0, SHOWN).map((slot) => (
              <li key={slot}>
                <Instant at={slot} clock />
              </li>
            ))}
            {preview.slots.length > SHOWN && <li>…</li>}
          </ul>
        </div>
      )}
      <OrderError error={look.error ?? fill.error} />
    </Dialog>
  );
}

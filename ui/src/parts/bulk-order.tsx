import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { type BulkOrder, type Operation, operationQueries, orderJobs, stopOperation } from "../api/jobs";
import { words } from "../words";
import { countText, numberText } from "../words/format";
import styles from "./bulk-order.module.css";
import { Button } from "./button";
import { Dialog } from "./dialog";
import { TextAreaField, TextField } from "./field";
import { Meter } from "./meter";
import { ErrorNotice, Loading } from "./page-states";
import { StateBadge } from "./state-badge";

export type BulkAction = BulkOrder["action"];
export type BulkTarget = { search: string } | { ids: string[] };

interface BulkOrderProps {
  action: BulkAction;
  target: BulkTarget;
  onClose: () => void;
  /** Called once the order has ended, whatever came of it. */
  onEnd?: () => void;
}

const text = words.jobs.bulk;
const DANGEROUS: readonly BulkAction[] = ["cancel", "reject", "delete"];

/**
 * An order for many jobs. It first counts and shows them without a change; the order itself repeats the hash of that
 * count, so that it reaches these jobs and no others, and its progress is shown to its end.
 */
export function BulkOrderDialog({ action, target, onClose, onEnd }: BulkOrderProps) {
  const [priority, setPriority] = useState("");
  const preview = useQuery({
    queryKey: ["operations", "preview", action, target],
    queryFn: () => orderJobs({ action, ...target, dry_run: true, ...(action === "priority" ? { priority: 0 } : {}) }),
    enabled: action !== "priority",
    gcTime: 0,
    staleTime: Infinity,
    retry: false,
  });
  const [ordered, setOrdered] = useState<Operation | null>(null);
  if (ordered?.id) return <Progress first={ordered} id={ordered.id} onClose={onClose} {...(onEnd && { onEnd })} />;
  if (action === "priority")
    return (
      <PriorityChoice
        priority={priority}
        setPriority={setPriority}
        target={target}
        onClose={onClose}
        onOrdered={setOrdered}
      />
    );
  return (
    <Confirmation
      key="confirmation"
      action={action}
      target={target}
      seen={preview.data ?? null}
      error={preview.error}
      onRetry={() => void preview.refetch()}
      onClose={onClose}
      onOrdered={setOrdered}
    />
  );
}

interface PriorityChoiceProps {
  priority: string;
  setPriority: (text: string) => void;
  target: BulkTarget;
  onClose: () => void;
  onOrdered: (operation: Operation) => void;
}

/** The hash of the count stands for the new priority too, so that is asked first. */
function PriorityChoice({ priority, setPriority, target, onClose, onOrdered }: PriorityChoiceProps) {
  const number = /^-?\d{1,3}$/.test(priority.trim()) ? Number(priority) : null;
  const valid = number !== null && number >= -100 && number <= 100;
  const count = useMutation({
    mutationFn: () => orderJobs({ action: "priority", ...target, dry_run: true, priority: number }),
  });
  if (count.data && valid)
    return (
      <Confirmation
        action="priority"
        target={target}
        priority={number}
        seen={count.data}
        error={null}
        onRetry={() => count.mutate()}
        onClose={onClose}
        onOrdered={onOrdered}
      />
    );
  return (
    <Dialog
      title={text.title.priority}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{words.cancel}</Button>
          <Button tone="primary" disabled={!valid} busy={count.isPending} onClick={() => count.mutate()}>
            {text.priority}
          </Button>
        </>
      }
    >
      <TextField
        label={text.newPriority}
        inputMode="numeric"
        value={priority}
        onChange={(event) => setPriority(event.target.value)}
      />
      {count.error && <ErrorNotice error={count.error} />}
    </Dialog>
  );
}

interface ConfirmationProps {
  action: BulkAction;
  target: BulkTarget;
  priority?: number;
  seen: Operation | null;
  error: Error | null;
  onRetry: () => void;
  onClose: () => void;
  onOrdered: (operation: Operation) => void;
}

function Confirmation({ action, target, priority, seen, error, onRetry, onClose, onOrdered }: ConfirmationProps) {
  const [note, setNote] = useState("");
  const [most, setMost] = useState("");
  const count = seen?.count ?? null;
  const limit = count?.exact === false ? Number(most) : (count?.value ?? 0);
  const ready = seen !== null && limit > 0;
  const order = useMutation({
    mutationFn: () =>
      orderJobs({
        action,
        ...target,
        ...(priority === undefined ? {} : { priority }),
        filter_hash: seen?.filter_hash ?? null,
        expected_max: limit,
        note: note.trim() || null,
      }),
    onSuccess: onOrdered,
  });
  const shown = count ? countText(count) : "";
  return (
    <Dialog
      title={text.title[action]}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{words.cancel}</Button>
          <Button
            tone={DANGEROUS.includes(action) ? "danger" : "primary"}
            disabled={!ready || order.isPending}
            busy={order.isPending}
            onClick={() => order.mutate()}
          >
            {ready ? text.act[action](shown) : text[action]}
          </Button>
        </>
      }
    >
      {error && <ErrorNotice error={error} onRetry={onRetry} />}
      {!error && !seen && (
        <div>
          <p>{text.counting}</p>
          <Loading lines={3} />
        </div>
      )}
      {seen && count && (
        <>
          <p className={styles.count}>
            {count.value === 0 ? text.foundNone : count.value === 1 && count.exact ? text.foundOne : text.found(shown)}
          </p>
          {"search" in target && target.search && <code className={styles.search}>{target.search}</code>}
          <Samples operation={seen} />
          {count.value > 0 && (
            <p className={styles.hint}>
              {text.stateNote} {action === "delete" && text.deleteNote}
            </p>
          )}
          {!count.exact && (
            <TextField
              label={text.most}
              hint={text.mostHint}
              inputMode="numeric"
              value={most}
              onChange={(event) => setMost(event.target.value.replace(/\D/g, ""))}
            />
          )}
          {count.value > 0 && (
            <TextAreaField
              label={words.note}
              hint={words.noteHint}
              rows={2}
              maxLength={1000}
              value={note}
              onChange={(event) => setNote(event.target.value)}
            />
          )}
        </>
      )}
      {order.error && (
        <p role="alert" className={styles.error}>
          {order.error.message}
        </p>
      )}
    </Dialog>
  );
}

function Samples({ operation }: { operation: Operation }) {
  if (operation.samples.length === 0) return null;
  return (
    <div>
      <h3>{text.among}</h3>
      <ul className={styles.samples}>
        {operation.samples.map((job) => (
          <li key={job.id}>
            <code>{job.id}</code> <span>{job.kind}</span> <StateBadge state={job.state} quiet />
          </li>
        ))}
      </ul>
    </div>
  );
}

const ENDED: readonly Operation["state"][] = ["completed", "failed", "cancelled"];

interface ProgressProps {
  first: Operation;
  id: string;
  onClose: () => void;
  onEnd?: () => void;
}

function Progress({ first, id, onClose, onEnd }: ProgressProps) {
  const client = useQueryClient();
  const query = useQuery({
    ...operationQueries.one(id),
    initialData: first,
    refetchInterval: (now) => (now.state.data && ENDED.includes(now.state.data.state) ? false : 700),
  });
  const operation = query.data;
  const ended = ENDED.includes(operation.state);
  const stop = useMutation({ mutationFn: () => stopOperation(id), onSettled: () => query.refetch() });
  useEffect(() => {
    if (!ended) return;
    void client.invalidateQueries({ queryKey: ["jobs"] });
    void client.invalidateQueries({ queryKey: ["failures"] });
    onEnd?.();
    // Once, when it ends: a new function of the caller is no new end.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [ended, client]);
  const touched = operation.done + operation.skipped + operation.failed;
  const all = Math.max(operation.count?.value ?? 0, touched);
  const state = operation.state === "preview" ? "running" : operation.state;
  return (
    <Dialog
      title={text.title[operation.action]}
      onClose={onClose}
      footer={
        <>
          {!ended && (
            <Button busy={stop.isPending} onClick={() => stop.mutate()}>
              {text.stop}
            </Button>
          )}
          <Button tone="primary" onClick={onClose}>
            {words.close}
          </Button>
        </>
      }
    >
      <div role="status">
        <p className={styles.count}>{text.result[state]}</p>
        <p>
          {ended
            ? text.done(numberText(operation.done), numberText(operation.skipped))
            : text.progress(numberText(touched), numberText(all))}
          {operation.failed > 0 && `, ${text.failed(numberText(operation.failed))}`}
        </p>
        {operation.error && <p className={styles.error}>{operation.error}</p>}
      </div>
      <Meter
        label={text.title[operation.action]}
        value={ended ? 100 : all > 0 ? Math.round((touched / all) * 100) : 0}
        max={100}
        tone={operation.state === "failed" ? "danger" : "accent"}
      />
    </Dialog>
  );
}

import { useState } from "react";
import { Link, useLocation } from "wouter";
import type { Job } from "../../api/client";
import { approveJob, cancelJob, cloneJob, deleteJob, rejectJob, retryJob, WAITING } from "../../api/jobs";
import type { Permission } from "../../api/permissions";
import { prefix, root } from "../../api/root";
import { useOrder } from "../../hooks/use-order";
import { useMayOrder } from "../../hooks/use-session";
import { useShortcuts } from "../../hooks/use-shortcuts";
import { Button } from "../../parts/button";
import { ConfirmOrder } from "../../parts/confirm-order";
import { copyText } from "../../parts/copy-text";
import { Icon } from "../../parts/icon";
import { Menu, type MenuItem } from "../../parts/menu";
import { useToast } from "../../parts/toast";
import { words } from "../../words";
import { allowsOrder } from "./allows-order";
import { asCommand, asCurl, asPython } from "./copy-as";
import { EditDialog } from "./edit-dialog";
import styles from "./job.module.css";

const text = words.job.orders;

/** Orders that are asked for before they are given. */
export type Order = "approve" | "reject" | "cancel" | "stop" | "retry" | "delete";

const PERMISSION: Record<Order, Permission> = {
  approve: "jobs:approve",
  reject: "jobs:approve",
  cancel: "jobs:cancel",
  stop: "jobs:cancel",
  retry: "jobs:retry",
  delete: "jobs:delete",
};

interface JobOrdersProps {
  job: Job;
  etag: string;
  onDeleted: () => void;
}

export function JobOrders({ job, etag, onDeleted }: JobOrdersProps) {
  const mayOrder = useMayOrder();
  const [, navigate] = useLocation();
  const [asked, setAsked] = useState<Order | null>(null);
  const [editing, setEditing] = useState(false);
  const offered = (order: Order) => allowsOrder(job.state, order) && mayOrder(PERMISSION[order], job);
  const clone = useOrder(() => cloneJob(job.id), {
    done: (copy) => text.done.clone(copy.id),
    refresh: [["jobs", "list"]],
    onDone: (copy) => navigate(`/jobs/${copy.id}`),
  });
  const ask = (order: Order) => () => offered(order) && setAsked(order);
  useShortcuts({ a: ask("approve"), c: ask("cancel"), r: ask("retry") });
  const copies = useCopies(job);
  const more: MenuItem[] = [
    ...(offered("stop") ? [{ label: text.stop, icon: "stop" as const, danger: true, onSelect: ask("stop") }] : []),
    ...(mayOrder("jobs:submit", job)
      ? [
          { label: text.clone, icon: "copy" as const, onSelect: () => clone.mutate(undefined) },
          { label: text.runAgain, icon: "edit" as const, onSelect: () => navigate(`/jobs/new?from=${job.id}`) },
        ]
      : []),
    ...copies,
    ...(offered("delete")
      ? [{ label: text.delete, icon: "trash" as const, danger: true, onSelect: ask("delete") }]
      : []),
  ];
  return (
    <>
      {offered("approve") && (
        <Button tone="primary" icon="check" onClick={ask("approve")}>
          {text.approve}
        </Button>
      )}
      {offered("reject") && <Button onClick={ask("reject")}>{text.reject}</Button>}
      {offered("retry") && (
        <Button icon="retry" onClick={ask("retry")}>
          {text.retry}
        </Button>
      )}
      {WAITING.includes(job.state) && mayOrder("jobs:edit", job) && (
        <Button icon="edit" onClick={() => setEditing(true)}>
          {text.edit}
        </Button>
      )}
      {offered("cancel") && (
        <Button icon="cross" onClick={ask("cancel")}>
          {text.cancel}
        </Button>
      )}
      {job.workflow && (
        <Link href={`/workflows/${job.workflow}`} className={styles.workflow ?? ""}>
          <Icon name="workflows" /> {words.job.facts.workflow}
        </Link>
      )}
      <Menu label={words.more} items={more} />
      {asked && <AskedOrder job={job} order={asked} onClose={() => setAsked(null)} onDeleted={onDeleted} />}
      {editing && <EditDialog job={job} etag={etag} onClose={() => setEditing(false)} />}
    </>
  );
}

function useCopies(job: Job): MenuItem[] {
  const toast = useToast();
  const api = `${root.origin}${prefix}/api/v1`;
  const forms = [
    [text.curl, asCurl(job, api)],
    [text.cli, asCommand(job)],
    [text.python, asPython(job)],
  ] as const;
  return forms.map(([name, form]) => ({
    label: `${text.copyAs} ${name}`,
    icon: "copy" as const,
    onSelect: () => void copyText(form).then(() => toast.show({ tone: "good", text: words.copied })),
  }));
}

interface AskedOrderProps {
  job: Job;
  order: Order;
  onClose: () => void;
  onDeleted: () => void;
}

function AskedOrder({ job, order, onClose, onDeleted }: AskedOrderProps) {
  const [, navigate] = useLocation();
  const give = (note: string | null): Promise<Job> => {
    switch (order) {
      case "approve":
        return approveJob(job.id, { note });
      case "reject":
        return rejectJob(job.id, { note });
      case "cancel":
        return cancelJob(job.id, { note });
      case "stop":
        return cancelJob(job.id, { note, stop: true });
      case "retry":
        return retryJob(job.id, { note });
      case "delete":
        return deleteJob(job.id);
    }
  };
  const parts = ["one", "attempts", "explain", "approval", "log"].map((part) => ["jobs", part, job.id]);
  const mutation = useOrder(give, {
    done: text.done[order],
    refresh: order === "delete" ? [["jobs", "list"]] : [...parts, ["jobs", "list"], ["approvals"], ["system", "audit"]],
    toastError: false,
    onDone: () => {
      onClose();
      if (order === "delete") {
        onDeleted();
        navigate("/jobs");
      }
    },
  });
  const cancelText = job.state === "running" ? text.asked.cancelRunning : text.asked.cancelWaiting;
  return (
    <ConfirmOrder
      title={`${text[order]}: ${job.kind}`}
      action={text.confirm[order]}
      danger={["reject", "cancel", "stop", "delete"].includes(order)}
      note={order !== "delete"}
      busy={mutation.isPending}
      error={mutation.error}
      onConfirm={(note) => mutation.mutate(note)}
      onClose={onClose}
    >
      <p>
        <code>{job.id}</code>
      </p>
      <p>{order === "cancel" ? cancelText : text.asked[order]}</p>
    </ConfirmOrder>
  );
}

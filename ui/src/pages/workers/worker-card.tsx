import { useState } from "react";
import { Link } from "wouter";
import { jobHref, laneHref } from "../../api/searches";
import { type BusyWorker, drainWorker, forgetWorker } from "../../api/workers";
import { useOrder } from "../../hooks/use-order";
import { useMayOrder } from "../../hooks/use-session";
import { classNames } from "../../parts/class-names";
import { ConfirmOrder } from "../../parts/confirm-order";
import { Icon } from "../../parts/icon";
import { Menu, type MenuItem } from "../../parts/menu";
import { Meter } from "../../parts/meter";
import { Facts } from "../../parts/page";
import { RunningJobs } from "../../parts/running-jobs";
import { Elapsed, Instant } from "../../parts/time";
import { words } from "../../words";
import { bytesText, numberText } from "../../words/format";
import styles from "./workers.module.css";

const text = words.workers;

/** One worker process: its state, its slots by lane, and the jobs in them. */
export function WorkerCard({ worker }: { worker: BusyWorker }) {
  const state = worker.state === "up" && worker.silent ? "silent" : (worker.state as keyof typeof text.states);
  return (
    <article className={styles.worker} aria-label={worker.name}>
      <header className={styles.head}>
        <h3>{worker.name}</h3>
        <span className={classNames(styles.state, styles[state])}>{text.states[state]}</span>
        {worker.requested && <span className={styles.ordered}>{text.ordered(worker.requested)}</span>}
        <WorkerMenu worker={worker} />
      </header>
      <Warnings worker={worker} />
      <Facts
        facts={[
          [text.version, worker.version],
          [text.uptime, <Elapsed key="up" since={worker.started_at} />],
          [text.lastBeat, <Instant key="beat" at={worker.seen_at} />],
          [text.memory, worker.memory === null ? words.none : bytesText(worker.memory)],
          [text.pid, String(worker.pid)],
          [text.lanes, worker.lanes?.join(", ") ?? text.everyLane],
          [text.kinds, <KindNames key="kinds" kinds={worker.kinds} />],
        ]}
      />
      <Slots worker={worker} />
      {worker.jobs.length > 0 && (
        <div className={styles.jobs}>
          <RunningJobs jobs={worker.jobs} empty={text.idle} />
        </div>
      )}
    </article>
  );
}

function KindNames({ kinds }: { kinds: readonly string[] }) {
  return kinds.length <= 2 ? (
    <span>{kinds.join(", ") || words.none}</span>
  ) : (
    <details>
      <summary>{text.kindsOf(numberText(kinds.length))}</summary>
      {kinds.join(", ")}
    </details>
  );
}

function Warnings({ worker }: { worker: BusyWorker }) {
  return (
    <>
      {worker.stuck > 0 && (
        <p className={styles.warning} title={text.stuckHint}>
          <Icon name="warning" /> {text.stuck(numberText(worker.stuck))}
        </p>
      )}
      {worker.set_aside_count > 0 && (
        <p className={styles.warning}>
          <Icon name="warning" /> {text.setAside(numberText(worker.set_aside_count))}
        </p>
      )}
      {worker.held.map((held) => (
        <p key={held.job_id} className={styles.warning}>
          {text.held} <Link href={jobHref(held.job_id)}>{held.kind}</Link> <Elapsed since={held.since} />
        </p>
      ))}
    </>
  );
}

function Slots({ worker }: { worker: BusyWorker }) {
  return (
    <ul className={styles.slots}>
      {worker.slots.map(({ lane, used, slots }) => (
        <li key={lane}>
          <Link href={laneHref(lane)}>{lane}</Link>
          <Meter value={used} max={slots} label={text.slotsOf(lane, numberText(used), numberText(slots))} />
          <span>
            {used}/{slots}
          </span>
        </li>
      ))}
    </ul>
  );
}

function WorkerMenu({ worker }: { worker: BusyWorker }) {
  const mayOrder = useMayOrder();
  const [asked, setAsked] = useState<"drain" | "forget" | null>(null);
  const give = (which: "drain" | "forget") => (which === "drain" ? drainWorker(worker.id) : forgetWorker(worker.id));
  const order = useOrder(give, {
    done: asked === "forget" ? text.forgotten(worker.name) : text.drained(worker.name),
    refresh: [["workers"], ["stats", "overview"]],
    onDone: () => setAsked(null),
    toastError: false,
  });
  if (!mayOrder("workers:manage") || worker.state === "stopped") return null;
  const items: MenuItem[] = [
    {
      label: text.drain,
      icon: "pause",
      disabled: worker.state === "draining",
      onSelect: () => setAsked("drain"),
    },
    // A worker that sends heartbeats is alive: the API refuses to forget it.
    { label: text.forget, icon: "trash", danger: true, disabled: !worker.silent, onSelect: () => setAsked("forget") },
  ];
  return (
    <>
      <Menu label={text.orders(worker.name)} items={items} />
      {asked && (
        <ConfirmOrder
          danger
          title={asked === "drain" ? text.drainTitle(worker.name) : text.forgetTitle(worker.name)}
          action={text[asked]}
          busy={order.isPending}
          error={order.error}
          onConfirm={() => order.mutate(asked)}
          onClose={() => {
            setAsked(null);
            order.reset();
          }}
        >
          {asked === "drain" ? text.drainText(numberText(worker.running)) : text.forgetText}
        </ConfirmOrder>
      )}
    </>
  );
}

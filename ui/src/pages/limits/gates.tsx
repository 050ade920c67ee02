import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { changeGate, deleteGate, type Gate, limitQueries } from "../../api/limits";
import { jobHref } from "../../api/searches";
import { useOrder } from "../../hooks/use-order";
import { useMayOrder } from "../../hooks/use-session";
import { useUrlState } from "../../hooks/use-url-state";
import { Button } from "../../parts/button";
import { ConfirmOrder } from "../../parts/confirm-order";
import { Dialog } from "../../parts/dialog";
import { CheckField, TextField } from "../../parts/field";
import { Menu } from "../../parts/menu";
import { Meter } from "../../parts/meter";
import { OrderError } from "../../parts/order-error";
import { Panel } from "../../parts/page";
import { Empty, Loaded } from "../../parts/page-states";
import { type Column, Table } from "../../parts/table";
import { Elapsed, Instant } from "../../parts/time";
import { words } from "../../words";
import { countText, numberText } from "../../words/format";
import styles from "./limits.module.css";
import { LoadMore } from "./load-more";

const text = words.limits;
const REFRESH = [["limits"]];

const COLUMNS: Column<Gate>[] = [
  { key: "key", title: text.key, cell: (gate) => gate.key },
  {
    key: "places",
    title: text.places,
    width: "min(12rem, 34vw)",
    cell: (gate) => (
      <span className={styles.meter}>
        <Meter
          value={gate.held}
          max={gate.limit}
          label={text.placesOf(gate.key, numberText(gate.held), numberText(gate.limit))}
          tone={gate.held >= gate.limit && gate.parked.value > 0 ? "warn" : "accent"}
        />
        <span>
          {numberText(gate.held)}/{numberText(gate.limit)}
        </span>
      </span>
    ),
  },
  { key: "parked", title: text.parked, width: "5rem", align: "end", cell: (gate) => countText(gate.parked, true) },
  {
    key: "fifo",
    title: text.fifo,
    width: "5rem",
    hideBelow: "tablet",
    cell: (gate) => (gate.fifo ? words.yes : words.no),
  },
  {
    key: "used",
    title: text.used,
    width: "7rem",
    align: "end",
    hideBelow: "tablet",
    cell: (gate) => <Instant at={gate.used_at} />,
  },
  {
    key: "orders",
    title: words.orders,
    heading: null,
    width: "3rem",
    align: "end",
    cell: (gate) => <GateMenu gate={gate} />,
  },
];

/** Gates by key; the chosen one shows who holds its places. */
export function Gates({ prefix }: { prefix: string }) {
  const gates = useInfiniteQuery({ ...limitQueries.gates(prefix), refetchInterval: 5000 });
  const [chosen, choose] = useUrlState("gate");
  return (
    <>
      <Panel flush>
        <Loaded query={gates}>
          {({ pages }) => {
            const rows = pages.flatMap((page) => page.items);
            if (rows.length === 0)
              return prefix ? (
                <Empty title={text.noMatch} />
              ) : (
                <Empty title={text.gatesEmpty}>{text.gatesEmptyWhy}</Empty>
              );
            return (
              <>
                <Table
                  label={text.tabs.gates}
                  rows={rows}
                  columns={COLUMNS}
                  rowKey={(gate) => gate.key}
                  onOpen={(gate) => choose(gate.key, { replace: true })}
                />
                <LoadMore query={gates} />
              </>
            );
          }}
        </Loaded>
      </Panel>
      {chosen && <Holders gateKey={chosen} />}
    </>
  );
}

function Holders({ gateKey }: { gateKey: string }) {
  const gate = useQuery({ ...limitQueries.gate(gateKey), refetchInterval: 3000 });
  return (
    <Panel title={`${text.holders}: ${gateKey}`}>
      <Loaded query={gate} lines={3}>
        {({ holders }) =>
          holders.length === 0 ? (
            <p>{text.noHolders}</p>
          ) : (
            <ul className={styles.holders}>
              {holders.map((holder) => (
                <li key={holder.job_id}>
                  <Link href={jobHref(holder.job_id)}>{holder.job_id}</Link>
                  <span>{holder.kind}</span>
                  <span>{holder.worker ?? words.none}</span>
                  <Elapsed since={holder.since} />
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Panel>
  );
}

function GateMenu({ gate }: { gate: Gate }) {
  const mayOrder = useMayOrder();
  const [asked, setAsked] = useState<"change" | "remove" | null>(null);
  const remove = useOrder(() => deleteGate(gate.key), {
    done: text.gateRemoved(gate.key),
    refresh: REFRESH,
    onDone: () => setAsked(null),
    toastError: false,
  });
  if (!mayOrder("workers:manage")) return null;
  return (
    <>
      <Menu
        label={text.orders(gate.key)}
        items={[
          { label: text.changeGate, icon: "edit", onSelect: () => setAsked("change") },
          {
            label: text.removeGate,
            icon: "trash",
            danger: true,
            disabled: gate.held > 0 || gate.parked.value > 0,
            onSelect: () => setAsked("remove"),
          },
        ]}
      />
      {asked === "change" && <ChangeGate gate={gate} onClose={() => setAsked(null)} />}
      {asked === "remove" && (
        <ConfirmOrder
          danger
          title={text.removeGateTitle(gate.key)}
          action={text.removeGate}
          busy={remove.isPending}
          error={remove.error}
          onConfirm={() => remove.mutate(undefined)}
          onClose={() => setAsked(null)}
        >
          {text.removeGateText}
        </ConfirmOrder>
      )}
    </>
  );
}

function ChangeGate({ gate, onClose }: { gate: Gate; onClose: () => void }) {
  const [limit, setLimit] = useState(String(gate.limit));
  const [fifo, setFifo] = useState(gate.fifo);
  const save = useOrder(() => changeGate(gate.key, { limit: Number(limit), fifo }), {
    done: text.gateChanged(gate.key),
    refresh: REFRESH,
    onDone: onClose,
    toastError: false,
  });
  const valid = /^\d+$/.test(limit.trim());
  return (
    <Dialog
      title={text.changeGateTitle(gate.key)}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{words.cancel}</Button>
          <Button
            tone="primary"
            busy={save.isPending}
            disabled={!valid || save.isPending}
            onClick={() => save.mutate(undefined)}
          >
            {words.save}
          </Button>
        </>
      }
    >
      <TextField
        label={text.limitLabel}
        hint={text.limitHint}
        error={valid ? null : text.notNumber}
        inputMode="numeric"
        value={limit}
        onChange={(event) => setLimit(event.target.value)}
      />
      <CheckField label={text.fifoLabel} checked={fifo} onChange={(event) => setFifo(event.target.checked)} />
      <OrderError error={save.error} />
    </Dialog>
  );
}

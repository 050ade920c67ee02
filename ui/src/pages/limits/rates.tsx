import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { limitQueries, pauseRate, type Rate, resetRate, resumeRate, setRate } from "../../api/limits";
import { useOrder } from "../../hooks/use-order";
import { useMayOrder } from "../../hooks/use-session";
import { Button } from "../../parts/button";
import { ConfirmOrder } from "../../parts/confirm-order";
import { Dialog } from "../../parts/dialog";
import { TextField } from "../../parts/field";
import { Icon } from "../../parts/icon";
import { Menu } from "../../parts/menu";
import { OrderError } from "../../parts/order-error";
import { Panel } from "../../parts/page";
import { Empty, Loaded } from "../../parts/page-states";
import { type Column, Table } from "../../parts/table";
import { Instant } from "../../parts/time";
import { words } from "../../words";
import { durationInput } from "../../words/duration-input";
import { durationText, numberText } from "../../words/format";
import styles from "./limits.module.css";
import { LoadMore } from "./load-more";

const text = words.limits;
const REFRESH = [["limits"]];

function rateText({ rate }: Rate): string {
  const base = text.rateText(numberText(rate.amount), durationText(rate.per));
  if (rate.window) return `${base}, ${text.window}`;
  return rate.burst === null || rate.burst === rate.amount ? base : `${base}, ${text.burst(numberText(rate.burst))}`;
}

const COLUMNS: Column<Rate>[] = [
  { key: "key", title: text.key, cell: (rate) => rate.key },
  { key: "rate", title: text.rate, cell: rateText },
  {
    key: "state",
    title: text.state,
    cell: (rate) =>
      rate.paused_until === null ? (
        text.open
      ) : (
        <span className={styles.paused} title={rate.paused_by === null ? undefined : text.pausedBy(rate.paused_by)}>
          <Icon name="pause" size={12} /> {text.pausedUntil} <Instant at={rate.paused_until} clock />
        </span>
      ),
  },
  {
    key: "available",
    title: text.available,
    width: "6rem",
    align: "end",
    hideBelow: "phone",
    cell: (rate) => numberText(rate.available),
  },
  { key: "waiting", title: text.waiting, width: "5rem", align: "end", cell: (rate) => numberText(rate.waiting) },
  {
    key: "busy",
    title: text.clearAt,
    width: "6.5rem",
    align: "end",
    hideBelow: "tablet",
    cell: (rate) => <Instant at={rate.busy_until} />,
  },
  {
    key: "orders",
    title: words.orders,
    heading: null,
    width: "3rem",
    align: "end",
    cell: (rate) => <RateMenu rate={rate} />,
  },
];

export function Rates({ prefix }: { prefix: string }) {
  const rates = useInfiniteQuery({ ...limitQueries.rates(prefix), refetchInterval: 5000 });
  return (
    <Panel flush>
      <Loaded query={rates}>
        {({ pages }) => {
          const rows = pages.flatMap((page) => page.items);
          if (rows.length === 0)
            return prefix ? (
              <Empty title={text.noMatch} />
            ) : (
              <Empty title={text.ratesEmpty}>{text.ratesEmptyWhy}</Empty>
            );
          return (
            <>
              <Table label={text.tabs.rates} rows={rows} columns={COLUMNS} rowKey={(rate) => rate.key} />
              <LoadMore query={rates} />
            </>
          );
        }}
      </Loaded>
    </Panel>
  );
}

function RateMenu({ rate }: { rate: Rate }) {
  const mayOrder = useMayOrder();
  const [asked, setAsked] = useState<"pause" | "change" | "reset" | null>(null);
  const close = () => setAsked(null);
  const resume = useOrder(() => resumeRate(rate.key), { done: text.rateResumed(rate.key), refresh: REFRESH });
  const reset = useOrder(() => resetRate(rate.key), {
    done: text.rateReset(rate.key),
    refresh: REFRESH,
    onDone: close,
    toastError: false,
  });
  if (!mayOrder("workers:manage")) return null;
  const toggle =
    rate.paused_until === null
      ? { label: text.pauseRate, icon: "pause" as const, onSelect: () => setAsked("pause") }
      : { label: text.resumeRate, icon: "play" as const, onSelect: () => resume.mutate(undefined) };
  return (
    <>
      <Menu
        label={text.orders(rate.key)}
        items={[
          toggle,
          { label: text.changeRate, icon: "edit", onSelect: () => setAsked("change") },
          { label: text.resetRate, icon: "retry", onSelect: () => setAsked("reset") },
        ]}
      />
      {asked === "pause" && <PauseRate rate={rate} onClose={close} />}
      {asked === "change" && <ChangeRate rate={rate} onClose={close} />}
      {asked === "reset" && (
        <ConfirmOrder
          title={text.resetTitle(rate.key)}
          action={text.resetRate}
          busy={reset.isPending}
          error={reset.error}
          onConfirm={() => reset.mutate(undefined)}
          onClose={close}
        >
          {text.resetText}
        </ConfirmOrder>
      )}
    </>
  );
}

function PauseRate({ rate, onClose }: { rate: Rate; onClose: () => void }) {
  const [lasting, setLasting] = useState("10m");
  const pause = useOrder(() => pauseRate(rate.key, lasting.trim()), {
    done: text.ratePaused(rate.key),
    refresh: REFRESH,
    onDone: onClose,
    toastError: false,
  });
  return (
    <Dialog
      title={text.pauseTitle(rate.key)}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{words.cancel}</Button>
          <Button
            tone="primary"
            busy={pause.isPending}
            disabled={!lasting.trim() || pause.isPending}
            onClick={() => pause.mutate(undefined)}
          >
            {text.pauseRate}
          </Button>
        </>
      }
    >
      <p>{text.pauseText}</p>
      <TextField
        label={text.pauseFor}
        hint={text.pauseForHint}
        value={lasting}
        onChange={(event) => setLasting(event.target.value)}
      />
      <OrderError error={pause.error} />
    </Dialog>
  );
}

function ChangeRate({ rate, onClose }: { rate: Rate; onClose: () => void }) {
  const [amount, setAmount] = useState(String(rate.rate.amount));
  const [per, setPer] = useState(durationInput(rate.rate.per));
  const [burst, setBurst] = useState(rate.rate.burst === null ? "" : String(rate.rate.burst));
  const isNumber = (typed: string) => /^\d+$/.test(typed.trim());
  const valid = isNumber(amount) && per.trim() !== "" && (burst.trim() === "" || isNumber(burst));
  const save = useOrder(
    () =>
      setRate(rate.key, {
        amount: Number(amount),
        per: per.trim(),
        window: rate.rate.window,
        ...(burst.trim() && !rate.rate.window ? { burst: Number(burst) } : {}),
      }),
    { done: text.rateChanged(rate.key), refresh: REFRESH, onDone: onClose, toastError: false },
  );
  return (
    <Dialog
      title={text.changeRateTitle(rate.key)}
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
      <div className={styles.rateFields}>
        <TextField
          label={text.amount}
          error={isNumber(amount) ? null : text.notNumber}
          inputMode="numeric"
          value={amount}
          onChange={(event) => setAmount(event.target.value)}
        />
        <TextField label={text.per} value={per} onChange={(event) => setPer(event.target.value)} />
        {!rate.rate.window && (
          <TextField
            label={text.burstLabel}
            hint={text.burstHint}
            inputMode="numeric"
            value={burst}
            onChange={(event) => setBurst(event.target.value)}
          />
        )}
      </div>
      <OrderError error={save.error} />
    </Dialog>
  );
}

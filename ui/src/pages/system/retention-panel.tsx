import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { resetRetention, type RetentionRule, setRetention, systemQueries } from "../../api/system";
import { useOrder } from "../../hooks/use-order";
import { useMayOrder } from "../../hooks/use-session";
import { Button } from "../../parts/button";
import { ConfirmOrder } from "../../parts/confirm-order";
import { Dialog } from "../../parts/dialog";
import { SelectField, TextField } from "../../parts/field";
import { Menu } from "../../parts/menu";
import { OrderError } from "../../parts/order-error";
import { Panel } from "../../parts/page";
import { Loaded } from "../../parts/page-states";
import { type Column, Table } from "../../parts/table";
import { words } from "../../words";
import { durationInput } from "../../words/duration-input";
import { durationText } from "../../words/format";
import styles from "./system.module.css";

const text = words.system;
const REFRESH = [
  ["system", "retention"],
  ["system", "status"],
  ["system", "audit"],
];
const FINAL = ["completed", "completed_with_errors", "failed", "cancelled", "expired"] as const;
const kindText = (kind: string) => (kind === "*" ? text.everyKind : kind);
const stateText = (state: string): string => {
  const named = FINAL.find((each) => each === state);
  return named ? words.states[named] : text.everyState;
};

const COLUMNS: Column<RetentionRule>[] = [
  { key: "kind", title: text.kind, cell: ({ kind }) => <span title={kindText(kind)}>{kindText(kind)}</span> },
  { key: "state", title: text.state, hideBelow: "phone", cell: ({ state }) => stateText(state) },
  { key: "keep", title: text.keep, width: "5.5rem", align: "end", cell: ({ keep }) => durationText(keep) },
  {
    key: "source",
    title: text.setBy,
    width: "8rem",
    hideBelow: "phone",
    cell: ({ source, declared }) => (
      <span title={declared === null ? undefined : text.declared(durationText(declared))}>
        {source === "code" ? text.setByCode : text.setByDeployment}
      </span>
    ),
  },
  {
    key: "orders",
    title: words.orders,
    heading: null,
    width: "3rem",
    align: "end",
    cell: (rule) => <RuleMenu rule={rule} />,
  },
];

/** How long finished jobs stay: what the code says, and what this deployment says instead. */
export function RetentionPanel() {
  const rules = useQuery(systemQueries.retention());
  const mayOrder = useMayOrder();
  const [adding, setAdding] = useState(false);
  return (
    <Panel
      title={text.retention}
      flush
      actions={
        mayOrder("workers:manage") && (
          <Button icon="plus" onClick={() => setAdding(true)}>
            {text.retentionNew}
          </Button>
        )
      }
    >
      <Loaded query={rules} lines={3}>
        {({ items }) =>
          items.length === 0 ? (
            <p className={styles.padded}>{text.noRetention}</p>
          ) : (
            <Table
              dense
              label={text.retention}
              rows={items}
              columns={COLUMNS}
              rowKey={({ kind, state }) => `${kind} ${state}`}
            />
          )
        }
      </Loaded>
      {adding && <RuleDialog rule={null} onClose={() => setAdding(false)} />}
    </Panel>
  );
}

function RuleMenu({ rule }: { rule: RetentionRule }) {
  const mayOrder = useMayOrder();
  const [asked, setAsked] = useState<"change" | "reset" | null>(null);
  const reset = useOrder(() => resetRetention(rule.kind, rule.state), {
    done: text.retentionTaken(kindText(rule.kind)),
    refresh: REFRESH,
    onDone: () => setAsked(null),
    toastError: false,
  });
  if (!mayOrder("workers:manage")) return null;
  return (
    <>
      <Menu
        label={text.retentionOrders(kindText(rule.kind), stateText(rule.state))}
        items={[
          { label: text.retentionChange, icon: "edit", onSelect: () => setAsked("change") },
          {
            label: text.retentionReset,
            icon: "retry",
            disabled: rule.source === "code",
            onSelect: () => setAsked("reset"),
          },
        ]}
      />
      {asked === "change" && <RuleDialog rule={rule} onClose={() => setAsked(null)} />}
      {asked === "reset" && (
        <ConfirmOrder
          title={text.retentionResetTitle(kindText(rule.kind))}
          action={text.retentionReset}
          busy={reset.isPending}
          error={reset.error}
          onConfirm={() => reset.mutate(undefined)}
          onClose={() => setAsked(null)}
        >
          {text.retentionResetText}
        </ConfirmOrder>
      )}
    </>
  );
}

function RuleDialog({ rule, onClose }: { rule: RetentionRule | null; onClose: () => void }) {
  const [kind, setKind] = useState(rule?.kind ?? "");
  const [state, setState] = useState(rule?.state ?? "*");
  const [keep, setKeep] = useState(durationInput(rule?.keep));
  const save = useOrder(() => setRetention(kind.trim(), state, keep.trim()), {
    done: (saved) => text.retentionSaved(kindText(saved.kind)),
    refresh: REFRESH,
    onDone: onClose,
    toastError: false,
  });
  return (
    <Dialog
      title={rule ? text.retentionTitle(kindText(rule.kind)) : text.retentionNew}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{words.cancel}</Button>
          <Button
            tone="primary"
            busy={save.isPending}
            disabled={!kind.trim() || !keep.trim() || save.isPending}
            onClick={() => save.mutate(undefined)}
          >
            {words.save}
          </Button>
        </>
      }
    >
      {!rule && (
        <>
          <TextField
            label={text.retentionKind}
            hint={text.retentionKindHint}
            value={kind}
            onChange={(event) => setKind(event.target.value)}
          />
          <SelectField label={text.retentionState} value={state} onChange={(event) => setState(event.target.value)}>
            <option value="*">{text.everyState}</option>
            {FINAL.map((each) => (
              <option key={each} value={each}>
                {words.states[each]}
              </option>
            ))}
          </SelectField>
        </>
      )}
      <TextField
        label={text.retentionKeep}
        hint={text.retentionKeepHint}
        value={keep}
        onChange={(event) => setKeep(event.target.value)}
      />
      <p>{text.retentionText}</p>
      <OrderError error={save.error} />
    </Dialog>
  );
}

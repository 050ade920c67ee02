import { useState } from "react";
import { fieldErrors } from "../../api/field-errors";
import { changeWebhook, createWebhook, type NewWebhook, type Webhook } from "../../api/webhooks";
import { useOrder } from "../../hooks/use-order";
import { Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { CheckField, TextField } from "../../parts/field";
import { OrderError } from "../../parts/order-error";
import { words } from "../../words";
import styles from "./system.module.css";
import { bodyOfForm, changeOfForm, formOf, PARTS, STATES, ticked } from "./webhook-form";

const text = words.webhooks;
const REFRESH = [["webhooks"], ["system", "audit"]];

interface EditWebhookProps {
  /** null: a new one. */
  webhook: Webhook | null;
  onClose: () => void;
  /** Called with the secret of a new one. */
  onMade: (made: NewWebhook) => void;
}

/** Adds a webhook or changes one. */
export function EditWebhook({ webhook, onClose, onMade }: EditWebhookProps) {
  const [form, setForm] = useState(() => formOf(webhook));
  const create = useOrder(() => createWebhook(bodyOfForm(form)), {
    refresh: REFRESH,
    onDone: onMade,
    toastError: false,
  });
  const change = useOrder((id: string) => changeWebhook(id, changeOfForm(form)), {
    done: ({ id }) => text.saved(id),
    refresh: REFRESH,
    onDone: onClose,
    toastError: false,
  });
  const order = webhook ? change : create;
  const errors = fieldErrors(order.error, ["url", "kinds", "description", "tenant"]);
  const typed = (field: "url" | "kinds" | "description" | "tenant", label: string, hint?: string) => (
    <TextField
      label={label}
      hint={hint}
      error={errors[field]}
      autoComplete="off"
      spellCheck={false}
      value={form[field]}
      onChange={(event) => setForm({ ...form, [field]: event.target.value })}
    />
  );
  return (
    <Dialog
      title={webhook ? text.editTitle(webhook.id) : text.new}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{words.cancel}</Button>
          <Button
            tone="primary"
            busy={order.isPending}
            disabled={!form.url.trim() || order.isPending}
            onClick={() => (webhook ? change.mutate(webhook.id) : create.mutate(undefined))}
          >
            {webhook ? words.save : text.new}
          </Button>
        </>
      }
    >
      {typed("url", text.url, text.urlHint)}
      {typed("kinds", text.kinds, text.kindsHint)}
      <fieldset className={styles.choices}>
        <legend>{text.states}</legend>
        {STATES.map((state) => (
          <CheckField
            key={state}
            label={words.states[state]}
            checked={form.states.includes(state)}
            onChange={(event) => setForm({ ...form, states: ticked(form.states, state, event.target.checked) })}
          />
        ))}
        <p>{text.statesHint}</p>
      </fieldset>
      <fieldset className={styles.choices}>
        <legend>{text.include}</legend>
        {PARTS.map((part) => (
          <CheckField
            key={part}
            label={text.parts[part]}
            checked={form.include.includes(part)}
            onChange={(event) => setForm({ ...form, include: ticked(form.include, part, event.target.checked) })}
          />
        ))}
        <p>{text.includeHint}</p>
      </fieldset>
      {!webhook && typed("tenant", text.tenant, text.tenantHint)}
      {typed("description", text.description)}
      <OrderError error={order.error} />
    </Dialog>
  );
}

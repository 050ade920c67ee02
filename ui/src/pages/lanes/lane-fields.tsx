import { CheckField, SelectField, TextField } from "../../parts/field";
import { words } from "../../words";
import type { FormErrors, LaneField, LaneForm } from "./lane-form";
import styles from "./lanes.module.css";

const text = words.lanes.fields;

interface LaneFieldsProps {
  form: LaneForm;
  errors: FormErrors;
  onChange: (form: LaneForm) => void;
  /** For a lane that is created: the API takes the question of approval only in a change. */
  fresh?: boolean;
}

/** The settings of a lane as fields. */
export function LaneFields({ form, errors, onChange, fresh = false }: LaneFieldsProps) {
  const typed = (field: Exclude<LaneField, "order" | "requires_approval">, label: string, hint?: string) => (
    <TextField
      label={label}
      hint={hint}
      error={errors[field]}
      value={form[field]}
      autoComplete="off"
      spellCheck={false}
      onChange={(event) => onChange({ ...form, [field]: event.target.value })}
    />
  );
  return (
    <div className={styles.fields}>
      <div className={styles.wide}>{typed("kinds", text.kinds, text.kindsHint)}</div>
      {typed("slots", text.slots)}
      {typed("max_total", text.max_total, text.max_total_hint)}
      <SelectField
        label={text.order}
        value={form.order}
        onChange={(event) => onChange({ ...form, order: event.target.value as LaneForm["order"] })}
      >
        <option value="fast">{text.order_fast}</option>
        <option value="strict">{text.order_strict}</option>
        <option value="fair">{text.order_fair}</option>
      </SelectField>
      {typed("poll_interval", text.poll_interval, text.duration_hint)}
      {typed("heartbeat_timeout", text.heartbeat_timeout, text.heartbeat_timeout_hint)}
      {typed("progress_timeout", text.progress_timeout, text.progress_timeout_hint)}
      {typed("aging_interval", text.aging_interval, text.aging_interval_hint)}
      <div className={styles.rate}>
        {typed("rate_amount", text.rate, text.rate_hint)}
        {typed("rate_per", text.per)}
      </div>
      {!fresh && (
        <div className={styles.wide}>
          <CheckField
            label={text.requires_approval}
            hint={text.requires_approval_hint}
            checked={form.requires_approval}
            onChange={(event) => onChange({ ...form, requires_approval: event.target.checked })}
          />
        </div>
      )}
    </div>
  );
}

import { SelectField, TextAreaField, TextField } from "../../parts/field";
import { words } from "../../words";
import { cronWords } from "../../words/cron-words";
import type { ScheduleField, ScheduleForm } from "./schedule-form";
import styles from "./schedules.module.css";
import { WindowFields } from "./window-fields";

const text = words.schedules;

interface ScheduleFieldsProps {
  form: ScheduleForm;
  errors: Partial<Record<ScheduleField, string>>;
  onChange: (form: ScheduleForm) => void;
}

export function ScheduleFields({ form, errors, onChange }: ScheduleFieldsProps) {
  const typed = (field: "kind" | "cron" | "every" | "tz" | "most_missed", hint?: string) => (
    <TextField
      label={text.fields[field]}
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
      {typed("kind")}
      {typed("tz")}
      {typed("cron", form.cron.trim() ? cronWords(form.cron) : text.fields.cronHint)}
      {typed("every", text.fields.everyHint)}
      <SelectField
        label={text.fields.missed}
        value={form.missed}
        onChange={(event) => onChange({ ...form, missed: event.target.value as ScheduleForm["missed"] })}
      >
        {(["latest", "all", "none"] as const).map((missed) => (
          <option key={missed} value={missed}>
            {text.missedText[missed]}
          </option>
        ))}
      </SelectField>
      {form.missed === "all" && typed("most_missed")}
      <SelectField
        label={text.fields.overlap}
        value={form.overlap}
        onChange={(event) => onChange({ ...form, overlap: event.target.value as ScheduleForm["overlap"] })}
      >
        {(["queue", "skip", "cancel"] as const).map((overlap) => (
          <option key={overlap} value={overlap}>
            {text.overlapText[overlap]}
          </option>
        ))}
      </SelectField>
      <div className={styles.wide}>
        <TextAreaField
          label={text.fields.args}
          error={errors.args}
          rows={5}
          spellCheck={false}
          className={styles.mono}
          value={form.args}
          onChange={(event) => onChange({ ...form, args: event.target.value })}
        />
      </div>
      <div className={styles.wide}>
        <TextAreaField
          label={text.fields.options}
          hint={text.fields.optionsHint}
          error={errors.options}
          rows={3}
          spellCheck={false}
          className={styles.mono}
          value={form.options}
          onChange={(event) => onChange({ ...form, options: event.target.value })}
        />
      </div>
      <div className={styles.wide}>
        <WindowFields
          windows={form.windows}
          error={errors.windows}
          onChange={(windows) => onChange({ ...form, windows })}
        />
      </div>
    </div>
  );
}

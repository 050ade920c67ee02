import { SelectField, TextAreaField, TextField } from "../../parts/field";
import { words } from "../../words";
import styles from "./new-job.module.css";
import type { SchemaField } from "./schema-fields";

const text = words.newJob;

interface ArgumentFieldProps {
  field: SchemaField;
  value: string;
  /** A secret of the copied job, which stays there. */
  hidden: boolean;
  error: string | null;
  onChange: (value: string) => void;
}

/** The control for one argument, by its type. */
export function ArgumentField({ field, value, hidden, error, onChange }: ArgumentFieldProps) {
  const label = field.required ? field.title : `${field.title} (${text.optional})`;
  const hint = [field.description, hidden && text.secretHint, field.widget === "json" && text.jsonHint]
    .filter(Boolean)
    .join(" ");
  const shared = {
    label,
    error,
    ...(hint && { hint }),
    value,
    required: false,
    "aria-required": field.required,
    onChange: (event: { target: { value: string } }) => onChange(event.target.value),
  };
  switch (field.widget) {
    case "boolean":
    case "choice":
      return (
        <SelectField {...shared}>
          {(!field.required || value === "") && <option value="">{text.leaveOut}</option>}
          {field.widget === "boolean"
            ? ["true", "false"].map((choice) => (
                <option key={choice} value={choice}>
                  {choice === "true" ? text.yes : text.no}
                </option>
              ))
            : field.choices.map((choice) => (
                <option key={choice} value={choice}>
                  {choice.replace(/^"|"$/g, "")}
                </option>
              ))}
        </SelectField>
      );
    case "json":
      return <TextAreaField {...shared} rows={4} spellCheck={false} className={styles.code} />;
    case "integer":
    case "number":
      return <TextField {...shared} inputMode={field.widget === "integer" ? "numeric" : "decimal"} />;
    case "secret":
      return <TextField {...shared} type="password" autoComplete="new-password" />;
    case "date":
      return <TextField {...shared} type="date" />;
    case "date-time":
      return <TextField {...shared} placeholder="2026-11-18T10:30:00Z" />;
    case "long-text":
      return value.includes("\n") ? <TextAreaField {...shared} rows={3} /> : <TextField {...shared} />;
    case "text":
      return <TextField {...shared} />;
  }
}

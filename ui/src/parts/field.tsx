import { type ComponentProps, type ReactNode, useId } from "react";
import { classNames } from "./class-names";
import styles from "./field.module.css";

interface FieldProps {
  label: string;
  hint?: ReactNode;
  error?: string | null | undefined;
  children: (ids: { id: string; "aria-describedby": string | undefined; "aria-invalid": boolean }) => ReactNode;
}

/** A label, a control, and below it a hint or what is wrong with the value. */
export function Field({ label, hint, error, children }: FieldProps) {
  const id = useId();
  const about = `${id}-about`;
  const hasText = Boolean(hint) || Boolean(error);
  return (
    <div className={styles.field}>
      <label htmlFor={id}>{label}</label>
      {children({ id, "aria-describedby": hasText ? about : undefined, "aria-invalid": Boolean(error) })}
      {hasText && (
        <div id={about} className={classNames(styles.hint, error && styles.error)}>
          {error ?? hint}
        </div>
      )}
    </div>
  );
}

type TextFieldProps = Omit<FieldProps, "children"> & Omit<ComponentProps<"input">, "id">;

export function TextField({ label, hint, error, className, ...rest }: TextFieldProps) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(ids) => <input type="text" {...rest} {...ids} className={classNames(styles.control, className)} />}
    </Field>
  );
}

type TextAreaFieldProps = Omit<FieldProps, "children"> & Omit<ComponentProps<"textarea">, "id">;

export function TextAreaField({ label, hint, error, className, ...rest }: TextAreaFieldProps) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(ids) => <textarea rows={3} {...rest} {...ids} className={classNames(styles.control, className)} />}
    </Field>
  );
}

type SelectFieldProps = Omit<FieldProps, "children"> & Omit<ComponentProps<"select">, "id">;

export function SelectField({
  label,
  hint,
  error,
  className,
  children,
  ...rest
}: SelectFieldProps & { children: ReactNode }) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(ids) => (
        <select {...rest} {...ids} className={classNames(styles.control, className)}>
          {children}
        </select>
      )}
    </Field>
  );
}

type CheckFieldProps = Omit<ComponentProps<"input">, "id" | "type"> & { label: string; hint?: ReactNode };

export function CheckField({ label, hint, ...rest }: CheckFieldProps) {
  const id = useId();
  return (
    <div className={styles.check}>
      <input type="checkbox" id={id} aria-describedby={hint ? `${id}-about` : undefined} {...rest} />
      <label htmlFor={id}>{label}</label>
      {hint && (
        <div id={`${id}-about`} className={styles.hint}>
          {hint}
        </div>
      )}
    </div>
  );
}

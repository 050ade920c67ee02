import styles from "./order-error.module.css";

/** Why an order was refused, inside the form or dialog that gave it. */
export function OrderError({ error }: { error: Error | null | undefined }) {
  if (!error) return null;
  return (
    <p role="alert" className={styles.error}>
      {error.message}
    </p>
  );
}

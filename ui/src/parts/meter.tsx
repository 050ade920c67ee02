import { classNames } from "./class-names";
import styles from "./meter.module.css";

interface MeterProps {
  value: number;
  /** The whole; 0 leaves the bar empty. */
  max: number;
  /** What is measured, read aloud with the numbers. */
  label: string;
  tone?: "accent" | "warn" | "danger" | "good";
}

/** How much of something is in use, as a bar of its parts when there are few, else as one bar. */
export function Meter({ value, max, label, tone = "accent" }: MeterProps) {
  const parts = max > 0 && max <= 24 && Number.isInteger(max) ? max : 1;
  const share = max > 0 ? Math.min(1, value / max) : 0;
  return (
    <span
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={Math.max(max, value)}
      aria-valuenow={value}
      className={classNames(styles.meter, styles[tone])}
    >
      {Array.from({ length: parts }, (_, part) => (
        <span key={part} className={styles.part}>
          <span
            className={styles.fill}
            style={{ inlineSize: `${Math.max(0, Math.min(1, share * parts - part)) * 100}%` }}
          />
        </span>
      ))}
    </span>
  );
}

import { words } from "../words";
import { numberText } from "../words/format";
import { classNames } from "./class-names";
import styles from "./sparkline.module.css";

interface SparklineProps {
  values: readonly number[];
  /** What the bars count, read aloud with the largest and the last value. */
  label: string;
  tone?: "accent" | "danger";
}

const HEIGHT = 20;

/** Small bars, one per step, all of the same width. */
export function Sparkline({ values, label, tone = "accent" }: SparklineProps) {
  const most = Math.max(...values, 1);
  const last = values.at(-1) ?? 0;
  return (
    <svg
      className={classNames(styles.spark, styles[tone])}
      viewBox={`0 0 ${values.length * 4} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={words.sparkline(label, numberText(most), numberText(last))}
    >
      {values.map((value, index) => {
        const height = value === 0 ? 0.75 : Math.max(1.5, (value / most) * HEIGHT);
        return (
          <rect
            key={index}
            x={index * 4}
            y={HEIGHT - height}
            width={3}
            height={height}
            className={classNames(value === 0 && styles.zero)}
          />
        );
      })}
    </svg>
  );
}

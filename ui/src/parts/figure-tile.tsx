import type { ReactNode } from "react";
import { Link } from "wouter";
import { classNames } from "./class-names";
import styles from "./figure-tile.module.css";

interface FigureTileProps {
  label: string;
  value: ReactNode;
  /** A line below the figure. */
  about?: ReactNode;
  tone?: "plain" | "good" | "warn" | "danger";
  /** Where the figure comes from: the list behind it. */
  href: string;
}

/** A number that matters, as a link to what it counts. */
export function FigureTile({ label, value, about, tone = "plain", href }: FigureTileProps) {
  return (
    <Link href={href} className={classNames(styles.tile, styles[tone])}>
      <span className={styles.label}>{label}</span>
      <span className={styles.value}>{value}</span>
      <span className={styles.about}>{about}</span>
    </Link>
  );
}

export function FigureTiles({ label, children }: { label: string; children: ReactNode }) {
  return (
    <section aria-label={label} className={styles.tiles}>
      {children}
    </section>
  );
}

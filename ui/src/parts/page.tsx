import { type ReactNode, useEffect } from "react";
import { useFeatures } from "../hooks/use-session";
import { words } from "../words";
import { classNames } from "./class-names";
import styles from "./page.module.css";

interface PageProps {
  title: string;
  /** Beside the title, such as a state. */
  badge?: ReactNode;
  /** Below the title: one line that says what the page shows. */
  subtitle?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}

/** The frame of a page: its one h1, its actions, its content. Sets the title of the tab. */
export function Page({ title, badge, subtitle, actions, children }: PageProps) {
  const instance = useFeatures()?.instance?.name;
  useEffect(() => {
    document.title = [title, instance, words.shell.product].filter(Boolean).join(" · ");
  }, [title, instance]);
  return (
    <div className={styles.page}>
      <header className={styles.header}>
        <div className={styles.titles}>
          <h1>
            {title} {badge}
          </h1>
          {subtitle !== undefined && <div className={styles.subtitle}>{subtitle}</div>}
        </div>
        {actions !== undefined && <div className={styles.actions}>{actions}</div>}
      </header>
      {children}
    </div>
  );
}

interface PanelProps {
  title?: string;
  actions?: ReactNode;
  /** Without inner space, for tables that reach the edges. */
  flush?: boolean;
  children: ReactNode;
}

/** A group of things on a page, with a heading. */
export function Panel({ title, actions, flush = false, children }: PanelProps) {
  return (
    <section className={classNames(styles.panel, flush && styles.flush)} aria-label={title}>
      {title !== undefined && (
        <header className={styles.panelHeader}>
          <h2>{title}</h2>
          {actions}
        </header>
      )}
      <div className={styles.panelBody}>{children}</div>
    </section>
  );
}

/** Names and values in two columns. */
export function Facts({ facts }: { facts: readonly (readonly [name: string, value: ReactNode])[] }) {
  return (
    <dl className={styles.facts}>
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

import { type ReactNode, useRef } from "react";
import { classNames } from "./class-names";
import styles from "./tabs.module.css";

export interface Tab<Name extends string> {
  name: Name;
  label: string;
  /** Shown after the label, such as a count. */
  badge?: ReactNode;
}

interface TabsProps<Name extends string> {
  label: string;
  tabs: readonly Tab<Name>[];
  chosen: Name;
  onChoose: (name: Name) => void;
  children: ReactNode;
}

/** Tabs with their panel. Arrow keys move; only the chosen tab is in the order of Tab. */
export function Tabs<Name extends string>({ label, tabs, chosen, onChoose, children }: TabsProps<Name>) {
  const list = useRef<HTMLDivElement>(null);
  const move = (event: React.KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    const at = tabs.findIndex((tab) => tab.name === chosen);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    if (!next) return;
    onChoose(next.name);
    list.current?.querySelector<HTMLButtonElement>(`[data-tab="${CSS.escape(next.name)}"]`)?.focus();
  };
  return (
    <>
      <div ref={list} role="tablist" tabIndex={-1} aria-label={label} className={styles.tabs} onKeyDown={move}>
        {tabs.map((tab) => (
          <button
            key={tab.name}
            type="button"
            role="tab"
            data-tab={tab.name}
            aria-selected={tab.name === chosen}
            tabIndex={tab.name === chosen ? 0 : -1}
            className={classNames(styles.tab, tab.name === chosen && styles.chosen)}
            onClick={() => onChoose(tab.name)}
          >
            {tab.label}
            {tab.badge !== undefined && <span className={styles.badge}>{tab.badge}</span>}
          </button>
        ))}
      </div>
      <div role="tabpanel" aria-label={tabs.find((tab) => tab.name === chosen)?.label}>
        {children}
      </div>
    </>
  );
}

interface SegmentsProps<Name extends string> {
  label: string;
  choices: readonly { name: Name; label: string }[];
  chosen: Name;
  onChoose: (name: Name) => void;
}

/** A few choices side by side, such as the window of a chart. */
export function Segments<Name extends string>({ label, choices, chosen, onChoose }: SegmentsProps<Name>) {
  return (
    <div role="group" aria-label={label} className={styles.segments}>
      {choices.map((choice) => (
        <button
          key={choice.name}
          type="button"
          aria-pressed={choice.name === chosen}
          className={styles.segment}
          onClick={() => onChoose(choice.name)}
        >
          {choice.label}
        </button>
      ))}
    </div>
  );
}

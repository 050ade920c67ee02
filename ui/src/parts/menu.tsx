import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import { classNames } from "./class-names";
import { Icon, type IconName } from "./icon";
import styles from "./menu.module.css";

export interface MenuItem {
  label: string;
  icon?: IconName;
  danger?: boolean;
  disabled?: boolean;
  /** Marks one of several choices. */
  checked?: boolean;
  onSelect: () => void;
}

interface MenuProps {
  /** What the button opens, read aloud and shown on hover. */
  label: string;
  /** The content of the button; without it three dots. */
  children?: ReactNode;
  items: (MenuItem | "line")[];
  align?: "start" | "end";
}

/** A button with a menu below it: arrow keys move, Escape closes, the focus returns to the button. */
export function Menu({ label, children, items, align = "end" }: MenuProps) {
  const [open, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const id = useId();

  useEffect(() => {
    if (!open) return;
    list.current?.querySelector<HTMLButtonElement>("button:not(:disabled)")?.focus();
    const onPress = (event: PointerEvent) => {
      const target = event.target as Node;
      if (!list.current?.contains(target) && !button.current?.contains(target)) setOpen(false);
    };
    document.addEventListener("pointerdown", onPress);
    return () => document.removeEventListener("pointerdown", onPress);
  }, [open]);

  const move = (event: React.KeyboardEvent) => {
    if (event.key === "Escape" || event.key === "Tab") {
      event.stopPropagation();
      setOpen(false);
      button.current?.focus();
      return;
    }
    const buttons = [...(list.current?.querySelectorAll<HTMLButtonElement>("button:not(:disabled)") ?? [])];
    const next = nextIndex(
      event.key,
      buttons.findIndex((each) => each === document.activeElement),
      buttons.length,
    );
    if (next === null) return;
    event.preventDefault();
    buttons[next]?.focus();
  };

  return (
    <div className={styles.root}>
      <button
        ref={button}
        type="button"
        className={classNames(styles.button, children === undefined && styles.dots)}
        aria-haspopup="menu"
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        aria-label={label}
        title={label}
        onClick={() => setOpen(!open)}
      >
        {children ?? <Icon name="more" />}
      </button>
      {open && (
        <div
          ref={list}
          id={id}
          role="menu"
          tabIndex={-1}
          aria-label={label}
          className={classNames(styles.menu, styles[align])}
          onKeyDown={move}
        >
          {items.map((item, index) =>
            item === "line" ? (
              <hr key={`line-${index}`} />
            ) : (
              <button
                key={item.label}
                type="button"
                role={item.checked === undefined ? "menuitem" : "menuitemradio"}
                aria-checked={item.checked}
                disabled={item.disabled}
                className={classNames(styles.item, item.danger && styles.danger)}
                onClick={() => {
                  setOpen(false);
                  button.current?.focus();
                  item.onSelect();
                }}
              >
                <span className={styles.mark}>
                  {item.checked ? <Icon name="check" size={14} /> : item.icon && <Icon name={item.icon} size={14} />}
                </span>
                {item.label}
              </button>
            ),
          )}
        </div>
      )}
    </div>
  );
}

function nextIndex(key: string, at: number, count: number): number | null {
  switch (key) {
    case "ArrowDown":
      return (at + 1) % count;
    case "ArrowUp":
      return (at - 1 + count) % count;
    case "Home":
      return 0;
    case "End":
      return count - 1;
    default:
      return null;
  }
}

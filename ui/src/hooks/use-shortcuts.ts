import { useEffect, useLayoutEffect, useRef } from "react";
import { readStored } from "./use-stored";

type Shortcut = (event: KeyboardEvent) => unknown;

/** Where single keys are switched off (WCAG 2.1.4). */
export const SHORTCUTS_KEY = "rowlock.shortcuts";

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName))
  );
}

/**
 * Single keys, by KeyboardEvent.key. They rest while a person types, while a dialog or menu is open, and with Ctrl,
 * Alt or Meta. Arrow keys and Enter stay when single keys are switched off.
 */
export function useShortcuts(shortcuts: Record<string, Shortcut | undefined>): void {
  const current = useRef(shortcuts);
  // Before the page is painted: a key that is pressed at sight of a row finds that row.
  useLayoutEffect(() => {
    current.current = shortcuts;
  });
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey) return;
      if (isTyping(event.target) || document.querySelector("dialog[open], [role=menu]")) return;
      if (event.key.length === 1 && readStored(SHORTCUTS_KEY) === "off") return;
      current.current[event.key]?.(event);
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}

import { useSyncExternalStore } from "react";
import { readStored, writeStored } from "../hooks/use-stored";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const KEY = "rowlock.theme";
const listeners = new Set<() => void>();

export function storedTheme(): Theme {
  const stored = readStored(KEY);
  return THEMES.find((theme) => theme === stored) ?? "system";
}

export function applyTheme(theme: Theme): void {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

export function chooseTheme(theme: Theme): void {
  writeStored(KEY, theme);
  applyTheme(theme);
  for (const listener of listeners) listener();
}

export function nextTheme(): void {
  const next = THEMES[(THEMES.indexOf(storedTheme()) + 1) % THEMES.length];
  if (next) chooseTheme(next);
}

export function useTheme(): Theme {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, storedTheme);
}

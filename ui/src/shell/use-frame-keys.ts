import { useEffect, useRef } from "react";
import { useLocation } from "wouter";
import { useShortcuts } from "../hooks/use-shortcuts";
import { useLive } from "../live/use-live";
import { NAVIGATION } from "../routes";
import { nextTheme } from "./theme";

/** Milliseconds between g and the key of a page. */
const PATIENCE = 1200;

/** Keys that work on every page. */
export function useFrameKeys({ onPalette, onHelp }: { onPalette: () => void; onHelp: () => void }): void {
  const [, navigate] = useLocation();
  const live = useLive();
  // When g was pressed. Events count from the load of the page, so 0 would be a g at its load.
  const goes = useRef(-Infinity);

  const go = (key: string) => (event: KeyboardEvent) => {
    if (event.timeStamp - goes.current > PATIENCE) return false;
    goes.current = -Infinity;
    const entry = NAVIGATION.find((each) => each.key === key);
    if (!entry) return false;
    event.preventDefault();
    // The table of the page that is left must not take the same key for its own.
    event.stopImmediatePropagation();
    navigate(entry.path);
    return true;
  };

  useShortcuts({
    ...Object.fromEntries(NAVIGATION.map((entry) => [entry.key, go(entry.key)])),
    g: (event) => {
      goes.current = event.timeStamp;
    },
    "/": (event) => {
      event.preventDefault();
      const search = document.querySelector<HTMLElement>("[data-search]");
      if (search) search.focus();
      else navigate("/jobs?focus=search");
    },
    "?": onHelp,
    p: () => (live.status === "paused" ? live.resume() : live.pause()),
    t: nextTheme,
  });

  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey) return;
      event.preventDefault();
      onPalette();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, [onPalette]);
}

import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { Link, useLocation } from "wouter";
import { statsQueries } from "../api/stats";
import { useMayRead } from "../hooks/use-session";
import { classNames } from "../parts/class-names";
import { Icon } from "../parts/icon";
import { NAVIGATION, type NavigationEntry } from "../routes";
import { words } from "../words";
import { countText } from "../words/format";
import styles from "./navigation.module.css";

/** Pages in the bar at the bottom of a phone; the others are behind the menu. */
const ON_PHONE = ["/", "/jobs", "/approvals", "/failures"];

function isCurrent(path: string, location: string): boolean {
  return path === "/" ? location === "/" : location === path || location.startsWith(`${path}/`);
}

/** How many jobs wait for a person, beside the entry that shows them. */
function useWaitingForApproval(enabled: boolean) {
  return useQuery({ ...statsQueries.overview("1h"), enabled, select: (overview) => overview.states.pending }).data;
}

export function Navigation({ open, onClose }: { open: boolean; onClose: () => void }) {
  const [location] = useLocation();
  const mayRead = useMayRead();
  const pending = useWaitingForApproval(mayRead("workers:view"));
  const entries = NAVIGATION.filter((entry) => !entry.needs || mayRead(entry.needs));

  useEffect(() => {
    if (!open) return;
    const press = (event: KeyboardEvent) => {
      if (event.key === "Escape") onClose();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, [open, onClose]);

  const entryLink = (entry: NavigationEntry) => (
    <li key={entry.path}>
      <Link
        href={entry.path}
        className={classNames(styles.link, isCurrent(entry.path, location) && styles.current)}
        aria-current={isCurrent(entry.path, location) ? "page" : undefined}
        onClick={onClose}
      >
        <Icon name={entry.icon} />
        <span>{entry.label}</span>
        {entry.path === "/approvals" && pending && pending.value > 0 && (
          <span className={styles.count}>{countText(pending, true)}</span>
        )}
      </Link>
    </li>
  );

  return (
    <>
      <nav aria-label={words.shell.navigation} className={classNames(styles.side, open && styles.open)}>
        <ul>{entries.map(entryLink)}</ul>
      </nav>
      <nav aria-label={words.shell.menu} className={styles.bottom}>
        <ul>{entries.filter((entry) => ON_PHONE.includes(entry.path)).map(entryLink)}</ul>
      </nav>
    </>
  );
}

import { useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, use, useEffect, useState, useSyncExternalStore } from "react";
import { allows } from "../api/permissions";
import { useMe } from "../hooks/use-session";
import { Feed } from "./feed";
import type { ChangedJob, LiveStatus } from "./messages";

const FeedContext = createContext<Feed | null>(null);

/** Topics of GET /events that these permissions allow. */
function topicsFor(held: readonly string[]): string[] {
  return [
    ...(allows(held, "jobs:read") ? ["jobs", "operations"] : []),
    ...(allows(held, "workers:view") ? ["lanes", "workers", "stats"] : []),
    ...(allows(held, "schedules:view") ? ["schedules"] : []),
  ];
}

/** Opens the feed for what the caller may see, and again when that changes. */
export function LiveProvider({ children }: { children: ReactNode }) {
  const client = useQueryClient();
  const me = useMe();
  const [feed] = useState(() => new Feed(client));
  const topics = me && topicsFor(me.permissions).join(",");
  const subject = me?.subject;

  useEffect(() => {
    if (topics && subject) return feed.open(topics.split(","));
  }, [feed, subject, topics]);

  return <FeedContext value={feed}>{children}</FeedContext>;
}

const never = () => () => undefined;

export interface Live {
  status: LiveStatus;
  pause: () => void;
  resume: () => void;
}

export function useLive(): Live {
  const feed = use(FeedContext);
  const status = useSyncExternalStore(feed?.subscribe ?? never, () => feed?.status ?? "connecting");
  return { status, pause: () => feed?.pause(), resume: () => feed?.resume() };
}

/** Calls `listener` with the changed jobs of each message; pass a stable function. */
export function useJobChanges(listener: (changes: readonly ChangedJob[]) => void): void {
  const feed = use(FeedContext);
  useEffect(() => feed?.onJobs(({ changes }) => listener(changes)), [feed, listener]);
}

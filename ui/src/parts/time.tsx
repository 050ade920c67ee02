import { useNow } from "../hooks/use-now";
import { words } from "../words";
import { clockText, durationText, instantText, relativeText } from "../words/format";

/** An instant as a distance from now, exact on hover. clock: as time of day instead. */
export function Instant({ at, clock = false }: { at: string | null | undefined; clock?: boolean }) {
  const now = useNow();
  if (!at) return <span>{words.none}</span>;
  return (
    <time dateTime={at} title={instantText(at)}>
      {clock ? clockText(at, now) : relativeText(at, now)}
    </time>
  );
}

/** A length of time; null is a dash. */
export function Duration({ seconds }: { seconds: number | null | undefined }) {
  if (seconds === null || seconds === undefined) return <span>{words.none}</span>;
  return <span title={`${seconds.toFixed(3)} s`}>{durationText(seconds)}</span>;
}

/** The time since an instant, growing each second; `until` stops it. */
export function Elapsed({ since, until }: { since: string | null | undefined; until?: string | null | undefined }) {
  const now = useNow();
  if (!since) return <span>{words.none}</span>;
  const end = until ? Date.parse(until) : now;
  const seconds = Math.max(0, (end - Date.parse(since)) / 1000);
  return <span title={instantText(since)}>{durationText(until ? seconds : Math.floor(seconds) || seconds)}</span>;
}

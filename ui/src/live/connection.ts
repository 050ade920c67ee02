import { root } from "../api/root";
import { FEED_EVENTS, type FeedMessage, type LiveStatus } from "./messages";

type ConnectionStatus = Exclude<LiveStatus, "paused">;

export interface ConnectionHandlers {
  onMessage: (message: FeedMessage) => void;
  onStatus: (status: ConnectionStatus) => void;
  /** The stream is back after a break: what was missed is unknown. */
  onReturn: () => void;
}

/** Milliseconds without a connection after which pages are polled. */
const PATIENCE = 8000;
/** Milliseconds until a refused connection is tried again. EventSource reconnects by itself only after a broken one. */
const NEXT_TRY = 15_000;

/** Opens GET /events and keeps it open. The function that it returns closes it. */
export function connect(topics: readonly string[], handlers: ConnectionHandlers): () => void {
  let source: EventSource | null = null;
  let lastId = "";
  let broken = false;
  let again: ReturnType<typeof setTimeout> | undefined;
  let patience: ReturnType<typeof setTimeout> | undefined;

  /** Pages are polled from then on: another try that fails must not end that. */
  let polling = false;
  const wait = () => {
    patience ??= setTimeout(() => {
      polling = true;
      handlers.onStatus("polling");
    }, PATIENCE);
  };

  const lose = () => {
    broken = true;
    if (!polling) handlers.onStatus("reconnecting");
    wait();
  };

  const open = () => {
    const address = new URL("api/v1/events", root);
    address.searchParams.set("topics", topics.join(","));
    if (lastId) address.searchParams.set("last_event_id", lastId);
    source = new EventSource(address, { withCredentials: true });
    source.onopen = () => {
      clearTimeout(patience);
      patience = undefined;
      polling = false;
      handlers.onStatus("live");
      if (broken && !lastId) handlers.onReturn();
      broken = false;
    };
    source.onerror = () => {
      lose();
      if (source?.readyState !== EventSource.CLOSED) return;
      clearTimeout(again);
      again = setTimeout(open, NEXT_TRY);
    };
    source.addEventListener("unavailable", lose);
    for (const event of FEED_EVENTS) {
      source.addEventListener(event, (received: MessageEvent<string>) => {
        lastId = received.lastEventId;
        handlers.onMessage({ event, data: JSON.parse(received.data) as unknown } as FeedMessage);
      });
    }
  };

  handlers.onStatus("connecting");
  wait();
  open();
  return () => {
    clearTimeout(again);
    clearTimeout(patience);
    source?.close();
  };
}

import type { QueryClient } from "@tanstack/react-query";
import { latency } from "../api/client";
import { prefix } from "../api/root";
import { connect } from "./connection";
import type { FeedMessage, LiveStatus, TabMessage } from "./messages";
import { applyChanges, collect, noChanges } from "./patches";

type ConnectionStatus = Exclude<LiveStatus, "paused">;
type JobsListener = (message: Extract<FeedMessage, { event: "jobs" }>["data"]) => void;

/** Milliseconds between two reads of the same query because of live changes. */
const READ_AGAIN_AFTER = 1000;

/**
 * The live changes of this tab. One tab of the browser holds the connection (Web Locks) and passes messages on to the
 * others (BroadcastChannel), because a browser opens at most six connections to a server over HTTP/1.1.
 */
export class Feed {
  readonly #client: QueryClient;
  #channel: BroadcastChannel | null = null;
  readonly #listeners = new Set<() => void>();
  readonly #jobsListeners = new Set<JobsListener>();
  #status: ConnectionStatus = "connecting";
  #paused = false;
  #leads = false;
  #changes = noChanges();
  #frame = 0;
  #readAgain = new Map<string, readonly unknown[]>();
  #readTimer: ReturnType<typeof setTimeout> | undefined;
  #pollTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(client: QueryClient) {
    this.#client = client;
  }

  /** Takes part in the feed until the function that it returns is called. */
  open = (topics: readonly string[]): (() => void) => {
    const leaving = new AbortController();
    this.#channel = new BroadcastChannel(`rowlock${prefix}`);
    this.#channel.onmessage = ({ data }: MessageEvent<TabMessage>) => this.#hear(data);
    this.#tell({ type: "hello" });
    void this.#lead(topics, leaving.signal);
    return () => {
      leaving.abort();
      this.#leads = false;
      this.#channel?.close();
      this.#channel = null;
      cancelAnimationFrame(this.#frame);
      this.#frame = 0;
      clearTimeout(this.#readTimer);
      this.#readTimer = undefined;
      clearTimeout(this.#pollTimer);
      this.#become("connecting");
    };
  };

  get status(): LiveStatus {
    return this.#paused ? "paused" : this.#status;
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Changes of jobs as they come, also those that no list shows, as for "12 new jobs". Silent while paused. */
  onJobs = (listener: JobsListener): (() => void) => {
    this.#jobsListeners.add(listener);
    return () => this.#jobsListeners.delete(listener);
  };

  pause = (): void => {
    this.#paused = true;
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#changes = noChanges();
    clearTimeout(this.#pollTimer);
    this.#notify();
  };

  resume = (): void => {
    this.#paused = false;
    void this.#client.invalidateQueries();
    this.#keepPolling();
    this.#notify();
  };

  /** Waits for its turn to hold the connection. Without Web Locks (plain http) every tab holds one. */
  async #lead(topics: readonly string[], signal: AbortSignal): Promise<void> {
    const hold = () =>
      new Promise<void>((resolve) => {
        this.#leads = true;
        const disconnect = connect(topics, {
          onMessage: (message) => {
            this.#tell({ type: "feed", message });
            this.#receive(message);
          },
          onStatus: (status) => {
            this.#tell({ type: "status", status });
            this.#become(status);
          },
          onReturn: () => this.#receive({ event: "resync", data: { reason: "reconnected" } }),
        });
        signal.addEventListener("abort", () => {
          disconnect();
          resolve();
        });
      });
    // Without a secure context the property is missing, whatever its type says.
    const locks = navigator.locks as LockManager | undefined;
    try {
      await (locks ? locks.request(`rowlock${prefix}`, { signal }, hold) : hold());
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  #hear(heard: TabMessage): void {
    switch (heard.type) {
      case "feed":
        this.#receive(heard.message);
        return;
      case "status":
        this.#become(heard.status);
        return;
      case "hello":
        if (this.#leads) this.#tell({ type: "status", status: this.#status });
    }
  }

  #tell(message: TabMessage): void {
    this.#channel?.postMessage(message);
  }

  #become(status: ConnectionStatus): void {
    if (status === this.#status) return;
    this.#status = status;
    this.#keepPolling();
    this.#notify();
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }

  #receive(message: FeedMessage): void {
    if (this.#paused) return;
    collect(this.#changes, message);
    if (message.event === "jobs") for (const listener of this.#jobsListeners) listener(message.data);
    this.#frame ||= requestAnimationFrame(() => this.#draw());
  }

  #draw(): void {
    this.#frame = 0;
    const changes = this.#changes;
    this.#changes = noChanges();
    for (const key of applyChanges(this.#client, changes)) this.#readAgain.set(JSON.stringify(key), key);
    if (this.#readAgain.size > 0) this.#readTimer ??= setTimeout(() => this.#read(), READ_AGAIN_AFTER);
  }

  #read(): void {
    this.#readTimer = undefined;
    const keys = [...this.#readAgain.values()];
    this.#readAgain.clear();
    if (this.#paused) return;
    for (const queryKey of keys) void this.#client.invalidateQueries({ queryKey });
  }

  /** Reads what is on screen every five seconds, or less often where answers are slow, while there is no stream. */
  #keepPolling(): void {
    clearTimeout(this.#pollTimer);
    if (this.#status !== "polling" || this.#paused) return;
    this.#pollTimer = setTimeout(
      () => {
        const done = document.hidden ? Promise.resolve() : this.#client.invalidateQueries();
        void done.finally(() => this.#keepPolling());
      },
      Math.max(5000, 4 * latency.last),
    );
  }
}

import { QueryClient } from "@tanstack/react-query";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Feed } from "./feed";

/** An EventSource that the test drives. */
class FakeSource extends EventTarget {
  static readonly CLOSED = 2;
  static opened: FakeSource[] = [];
  readyState = 0;
  onopen: (() => void) | null = null;
  onerror: (() => void) | null = null;
  readonly url: string;

  constructor(url: URL) {
    super();
    this.url = String(url);
    FakeSource.opened.push(this);
  }

  close() {
    this.readyState = FakeSource.CLOSED;
  }

  send(event: string, data: unknown, lastEventId = "1") {
    this.dispatchEvent(new MessageEvent(event, { data: JSON.stringify(data), lastEventId }));
  }

  fail(closed: boolean) {
    if (closed) this.readyState = FakeSource.CLOSED;
    this.onerror?.();
  }
}

const source = () => {
  const last = FakeSource.opened.at(-1);
  if (!last) throw new Error("no connection was opened");
  return last;
};

describe("the feed", () => {
  let client: QueryClient;
  let feed: Feed;
  let leave: () => void;

  beforeEach(() => {
    vi.useFakeTimers();
    vi.stubGlobal("EventSource", FakeSource);
    vi.stubGlobal(
      "BroadcastChannel",
      class {
        onmessage = null;
        postMessage = () => undefined;
        close = () => undefined;
      },
    );
    vi.stubGlobal("requestAnimationFrame", (draw: () => void) => setTimeout(draw, 16));
    vi.stubGlobal("cancelAnimationFrame", (timer: number) => clearTimeout(timer));
    FakeSource.opened = [];
    client = new QueryClient();
    feed = new Feed(client);
    leave = feed.open(["jobs", "stats"]);
  });

  afterEach(() => {
    leave();
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it("writes statistics into the cache with the next frame", () => {
    source().onopen?.();
    source().send("stats", { window: 3600, lanes: [] });
    expect(client.getQueryData(["stats", "overview", "1h"])).toBeUndefined();
    vi.advanceTimersByTime(16);
    expect(client.getQueryData(["stats", "overview", "1h"])).toEqual({ window: 3600, lanes: [] });
    expect(feed.status).toBe("live");
  });

  it("changes nothing while paused, and reads everything again afterwards", () => {
    source().onopen?.();
    const invalidate = vi.spyOn(client, "invalidateQueries");
    feed.pause();
    source().send("stats", { window: 3600, lanes: [] });
    vi.advanceTimersByTime(5000);
    expect(feed.status).toBe("paused");
    expect(client.getQueryData(["stats", "overview", "1h"])).toBeUndefined();
    expect(invalidate).not.toHaveBeenCalled();
    feed.resume();
    expect(invalidate).toHaveBeenCalledOnce();
  });

  it("polls while the stream is away, and stops when it is back", () => {
    source().onopen?.();
    source().fail(false);
    expect(feed.status).toBe("reconnecting");
    vi.advanceTimersByTime(8000);
    expect(feed.status).toBe("polling");
    const invalidate = vi.spyOn(client, "invalidateQueries");
    vi.advanceTimersByTime(5000);
    expect(invalidate).toHaveBeenCalledOnce();
    source().onopen?.();
    expect(feed.status).toBe("live");
    vi.advanceTimersByTime(20_000);
    // Once more, for what was missed meanwhile.
    expect(invalidate).toHaveBeenCalledTimes(2);
  });

  it("opens a refused stream again, from where it was", () => {
    source().onopen?.();
    source().send("stats", { lanes: [] }, "77");
    source().fail(true);
    vi.advanceTimersByTime(15_000);
    expect(FakeSource.opened).toHaveLength(2);
    expect(source().url).toContain("last_event_id=77");
  });
});

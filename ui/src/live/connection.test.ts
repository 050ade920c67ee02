import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { connect } from "./connection";

/** An EventSource that is refused until the test lets it through. */
class RefusedSource {
  static readonly CLOSED = 2;
  static readonly opened: RefusedSource[] = [];
  readyState = RefusedSource.CLOSED;
  onopen: (() => void) | null = null;
  onerror: (() => void) | null = null;
  constructor() {
    RefusedSource.opened.push(this);
  }
  addEventListener(): void {
    // No message comes.
  }
  close(): void {
    this.readyState = RefusedSource.CLOSED;
  }
}

const told: string[] = [];
const nothing = () => undefined;
const begin = () =>
  connect(["jobs"], { onMessage: nothing, onStatus: (status) => told.push(status), onReturn: nothing });
const newest = () => RefusedSource.opened.at(-1);

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("EventSource", RefusedSource);
  told.length = 0;
  RefusedSource.opened.length = 0;
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("polls while the stream stays away, and goes on after another refusal", () => {
  const close = begin();
  newest()?.onerror?.();
  vi.advanceTimersByTime(8000);
  expect(told).toEqual(["connecting", "reconnecting", "polling"]);
  vi.advanceTimersByTime(15_000);
  expect(RefusedSource.opened).toHaveLength(2);
  newest()?.onerror?.();
  expect(told.at(-1)).toBe("polling");
  close();
});

it("is live again with the stream, and interrupted anew when it breaks", () => {
  const close = begin();
  vi.advanceTimersByTime(8000);
  newest()?.onopen?.();
  expect(told.at(-1)).toBe("live");
  newest()?.onerror?.();
  expect(told.at(-1)).toBe("reconnecting");
  vi.advanceTimersByTime(8000);
  expect(told.at(-1)).toBe("polling");
  close();
});

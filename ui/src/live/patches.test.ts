import { QueryClient } from "@tanstack/react-query";
import { describe, expect, it } from "vitest";
import type { Job } from "../api/client";
import type { JobsPage } from "../api/jobs";
import type { ChangedJob } from "./messages";
import { applyChanges, collect, noChanges, patchedPages } from "./patches";

const job = (id: string, more: Partial<Job> = {}): Job =>
  ({
    id,
    state: "queued",
    attempt: 0,
    priority: 0,
    lane: null,
    run_after: "a",
    claimed_at: null,
    finished_at: null,
    ...more,
  }) as Job;

const change = (id: string, more: Partial<ChangedJob> = {}): ChangedJob => ({
  ...job(id),
  event: "job.claimed",
  seq: 1,
  kind: "k",
  created_at: "a",
  tenant: null,
  ...more,
});

const page = (...items: Job[]): JobsPage => ({ items, next_cursor: null }) as unknown as JobsPage;

describe("changes of a frame", () => {
  it("keep the newest of two changes of a job, in whatever order they come", () => {
    const changes = noChanges();
    collect(changes, { event: "jobs", data: { lag: 0, changes: [change("A", { seq: 3, state: "running" })] } });
    collect(changes, { event: "jobs", data: { lag: 0, changes: [change("A", { seq: 2, state: "queued" })] } });
    expect(changes.jobs.get("A")?.state).toBe("running");
  });

  it("become one resync when there are too many", () => {
    const changes = noChanges();
    const many = Array.from({ length: 2001 }, (_, index) => change(`J${index}`));
    collect(changes, { event: "jobs", data: { lag: 0, changes: many } });
    expect(changes.jobs.size).toBe(0);
    expect(applyChanges(new QueryClient(), changes)).toEqual([[]]);
  });
});

describe("patched pages", () => {
  it("change a row where it stands, and keep every other object", () => {
    const [first, second] = [job("A"), job("B")];
    const before = { pages: [page(first, second), page(job("C"))], pageParams: [null, "c"] };
    const after = patchedPages(before, new Map([["B", change("B", { state: "running", attempt: 1 })]]));
    expect(after?.pages[0]?.items.map((each) => [each.id, each.state])).toEqual([
      ["A", "queued"],
      ["B", "running"],
    ]);
    expect(after?.pages[0]?.items[0]).toBe(first);
    expect(after?.pages[1]).toBe(before.pages[1]);
  });

  it("are the same object when no row is concerned", () => {
    const before = { pages: [page(job("A"))], pageParams: [null] };
    expect(patchedPages(before, new Map([["Z", change("Z")]]))).toBe(before);
  });

  it("drop the progress of a job that ended", () => {
    const before = {
      pages: [page(job("A", { state: "running", progress: { done: 1 } as Job["progress"] }))],
      pageParams: [null],
    };
    const after = patchedPages(before, new Map([["A", change("A", { state: "completed", finished_at: "b" })]]));
    expect(after?.pages[0]?.items[0]?.progress).toBeNull();
  });
});

it("reads again only the jobs on screen", () => {
  const client = new QueryClient();
  client.setQueryData(["jobs", "one", "A"], { data: job("A"), etag: '"1"' });
  const changes = noChanges();
  collect(changes, { event: "jobs", data: { lag: 0, changes: [change("A"), change("B")] } });
  expect(applyChanges(client, changes)).toEqual([
    ["jobs", "one", "A"],
    ["jobs", "attempts", "A"],
    ["jobs", "explain", "A"],
  ]);
});

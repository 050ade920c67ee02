import { describe, expect, it } from "vitest";
import type { BusyWorker } from "../../api/workers";
import { hostGroups, mixedVersions } from "./host-groups";

const worker = (more: Partial<BusyWorker>): BusyWorker =>
  ({
    id: "1",
    name: "a:1",
    host: "a",
    version: "1.0",
    state: "up",
    silent: false,
    stuck: 0,
    set_aside_count: 0,
    lanes: null,
    kinds: [],
    ...more,
  }) as BusyWorker;

describe("hosts", () => {
  it("with trouble come first, and their processes by name", () => {
    const groups = hostGroups(
      [worker({}), worker({ host: "b", name: "b:2" }), worker({ host: "b", name: "b:1", silent: true })],
      "",
      false,
    );
    expect(groups.map(({ host, workers }) => [host, workers.map(({ name }) => name)])).toEqual([
      ["b", ["b:1", "b:2"]],
      ["a", ["a:1"]],
    ]);
  });

  it("leave out stopped workers unless asked for", () => {
    const stopped = [worker({ state: "stopped" })];
    expect(hostGroups(stopped, "", false)).toEqual([]);
    expect(hostGroups(stopped, "", true)).toHaveLength(1);
  });

  it("are found by lane and kind too", () => {
    const workers = [worker({ kinds: ["send_mail"] }), worker({ host: "b", lanes: ["bulk"] })];
    expect(hostGroups(workers, "MAIL", false).map(({ host }) => host)).toEqual(["a"]);
    expect(hostGroups(workers, "bulk", false).map(({ host }) => host)).toEqual(["b"]);
  });
});

it("names versions only where they differ", () => {
  expect(mixedVersions([worker({}), worker({})])).toEqual([]);
  expect(mixedVersions([worker({ version: "1.1" }), worker({}), worker({ version: "0.9", state: "stopped" })])).toEqual(
    ["1.0", "1.1"],
  );
});

import type { BusyWorker } from "../../api/workers";

export interface HostGroup {
  host: string;
  workers: BusyWorker[];
}

const contains = (worker: BusyWorker, wanted: string): boolean =>
  [worker.host, worker.name, worker.version, worker.id, ...(worker.lanes ?? []), ...worker.kinds].some((text) =>
    text.toLowerCase().includes(wanted),
  );

/** Workers by host: hosts with something wrong first, then by name; stopped ones only where asked for. */
export function hostGroups(workers: readonly BusyWorker[], search: string, stopped: boolean): HostGroup[] {
  const wanted = search.trim().toLowerCase();
  const groups = new Map<string, BusyWorker[]>();
  for (const worker of workers) {
    if (worker.state === "stopped" && !stopped) continue;
    if (wanted && !contains(worker, wanted)) continue;
    groups.set(worker.host, [...(groups.get(worker.host) ?? []), worker]);
  }
  const troubled = (group: HostGroup) => group.workers.some((worker) => isTroubled(worker));
  return [...groups]
    .map(([host, group]) => ({ host, workers: group.sort((one, other) => one.name.localeCompare(other.name)) }))
    .sort((one, other) => Number(troubled(other)) - Number(troubled(one)) || one.host.localeCompare(other.host));
}

export function isTroubled(worker: BusyWorker): boolean {
  return worker.state !== "stopped" && (worker.silent || worker.stuck > 0 || worker.set_aside_count > 0);
}

/** The versions of running workers, when there is more than one. */
export function mixedVersions(workers: readonly BusyWorker[]): string[] {
  const versions = new Set(workers.filter(({ state }) => state !== "stopped").map(({ version }) => version));
  return versions.size > 1 ? [...versions].sort() : [];
}

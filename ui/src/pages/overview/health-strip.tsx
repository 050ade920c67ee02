import { useQuery } from "@tanstack/react-query";
import { jobsHref, laneHref } from "../../api/searches";
import type { Overview } from "../../api/stats";
import { systemQueries } from "../../api/system";
import { FigureTile, FigureTiles } from "../../parts/figure-tile";
import { words } from "../../words";
import { countText, durationText, numberText, percentText, shortNumber } from "../../words/format";

const text = words.overview;
/** Seconds. */
const LONG_WAIT = 60;

export function HealthStrip({ overview }: { overview: Overview }) {
  return (
    <FigureTiles label={text.health}>
      <DeployTile />
      <WorkersTile overview={overview} />
      <RunningTile overview={overview} />
      <WaitingTile overview={overview} />
      <ApprovalTile overview={overview} />
      <FailedTile overview={overview} />
    </FigureTiles>
  );
}

function DeployTile() {
  const { data } = useQuery({ ...systemQueries.deployReady(), refetchInterval: 15_000 });
  const label = words.overview.deploySafe;
  if (!data) return <FigureTile label={label} value={words.none} href="/system" />;
  const about =
    data.waiting_jobs > 0 ? text.deployWaits(numberText(data.waiting_jobs)) : (data.problems[0] ?? text.deployAllWell);
  const kinds = Object.keys(data.waiting_for);
  const running = kinds.length > 0 ? jobsHref(`state:running kind:${kinds.join(",")}`) : "/system";
  return (
    <FigureTile
      label={label}
      value={data.safe ? words.yes : words.no}
      about={about}
      tone={data.safe ? "good" : "warn"}
      href={running}
    />
  );
}

function WorkersTile({ overview }: { overview: Overview }) {
  const present = overview.workers.filter(({ state }) => state !== "stopped");
  const silent = present.filter((worker) => worker.silent).length;
  const up = present.length - silent;
  return (
    <FigureTile
      label={text.workers}
      value={text.workersUp(numberText(up))}
      about={silent > 0 ? text.workersSilent(numberText(silent)) : up === 0 ? text.noWorkers : ""}
      tone={up === 0 ? "danger" : silent > 0 ? "warn" : "plain"}
      href="/workers"
    />
  );
}

function RunningTile({ overview }: { overview: Overview }) {
  const used = overview.lanes.reduce((sum, lane) => sum + lane.used, 0);
  const slots = overview.lanes.reduce((sum, lane) => sum + lane.total_slots, 0);
  const running = overview.states.running ?? { value: used, exact: true };
  return (
    <FigureTile
      label={text.running}
      value={countText(running, true)}
      about={text.slots(numberText(used), numberText(slots))}
      href={jobsHref("state:running")}
    />
  );
}

function WaitingTile({ overview }: { overview: Overview }) {
  const due = overview.lanes.reduce(
    (sum, lane) => ({ value: sum.value + lane.due.value, exact: sum.exact && lane.due.exact }),
    { value: 0, exact: true },
  );
  const slowest = overview.lanes.reduce<{ name: string; wait: number } | null>(
    (worst, { name, oldest_wait }) =>
      oldest_wait !== null && oldest_wait > (worst?.wait ?? 0) ? { name, wait: oldest_wait } : worst,
    null,
  );
  return (
    <FigureTile
      label={text.waiting}
      value={countText(due, true)}
      about={slowest ? text.oldest(durationText(slowest.wait)) : text.nothingWaits}
      tone={slowest && slowest.wait >= LONG_WAIT ? "warn" : "plain"}
      href={slowest ? laneHref(slowest.name) : jobsHref("state:queued")}
    />
  );
}

function ApprovalTile({ overview }: { overview: Overview }) {
  const pending = overview.states.pending ?? { value: 0, exact: true };
  return <FigureTile label={text.pending} value={countText(pending, true)} href="/approvals" />;
}

function FailedTile({ overview }: { overview: Overview }) {
  const failed = overview.ended.failed?.value ?? 0;
  const ended = Object.values(overview.ended).reduce((sum, count) => sum + count.value, 0);
  const share = ended === 0 ? 0 : failed / ended;
  return (
    <FigureTile
      label={text.failed(words.windows["1h"])}
      value={shortNumber(failed)}
      about={ended === 0 ? text.noneEnded : text.failedShare(percentText(share))}
      tone={share >= 0.2 ? "danger" : share >= 0.02 ? "warn" : "plain"}
      href="/failures"
    />
  );
}

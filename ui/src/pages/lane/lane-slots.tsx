import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { jobHref, jobsHref, searchValue } from "../../api/searches";
import { workerQueries } from "../../api/workers";
import { Meter } from "../../parts/meter";
import { Panel } from "../../parts/page";
import { Loaded } from "../../parts/page-states";
import { RunningJobs } from "../../parts/running-jobs";
import { words } from "../../words";
import { numberText } from "../../words/format";
import styles from "./lane.module.css";

const text = words.lanes;

/** Which worker has how many slots of the lane, and what runs in them. */
export function LaneSlots({ name }: { name: string }) {
  const status = useQuery({ ...workerQueries.status(), refetchInterval: 5000 });
  return (
    <Loaded query={status}>
      {({ workers }) => {
        const serving = workers.flatMap((worker) => {
          const slots = worker.slots.find(({ lane }) => lane === name);
          return slots ? [{ worker, slots }] : [];
        });
        const jobs = workers.flatMap((worker) => worker.jobs.filter(({ lane }) => lane === name));
        return (
          <div className={styles.columns}>
            <Panel title={text.byWorker}>
              {serving.length === 0 && <p>{text.noWorker}</p>}
              <ul className={styles.workers}>
                {serving.map(({ worker, slots }) => (
                  <li key={worker.id}>
                    <Link href={`/workers?q=${encodeURIComponent(worker.name)}`}>{worker.name}</Link>
                    <Meter
                      value={slots.used}
                      max={slots.slots}
                      label={text.slotsOf(name, numberText(slots.used), numberText(slots.slots))}
                    />
                    <span>
                      {slots.used}/{slots.slots}
                    </span>
                  </li>
                ))}
              </ul>
              {workers
                .flatMap((worker) => worker.held.filter(({ lane }) => lane === name))
                .map((held) => (
                  <p key={held.job_id}>
                    {words.workers.held} <Link href={jobHref(held.job_id)}>{held.kind}</Link>
                  </p>
                ))}
            </Panel>
            <Panel
              title={text.runningJobs}
              flush
              actions={
                jobs.length > 0 && (
                  <Link href={jobsHref(`state:running lane:${searchValue(name)}`)}>{text.runningAsList}</Link>
                )
              }
            >
              <RunningJobs jobs={jobs} empty={text.nothingRuns} />
            </Panel>
          </div>
        );
      }}
    </Loaded>
  );
}

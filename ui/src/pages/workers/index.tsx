import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { jobsHref, searchValue } from "../../api/searches";
import { workerQueries, type WorkersStatus } from "../../api/workers";
import { useUrlState } from "../../hooks/use-url-state";
import { CopyButton } from "../../parts/copy-button";
import { CheckField, TextField } from "../../parts/field";
import { Icon } from "../../parts/icon";
import { Page, Panel } from "../../parts/page";
import { Empty, Loaded } from "../../parts/page-states";
import { words } from "../../words";
import { countText } from "../../words/format";
import { hostGroups, mixedVersions } from "./host-groups";
import { WorkerCard } from "./worker-card";
import styles from "./workers.module.css";

const text = words.workers;

export default function WorkersPage() {
  // Slots and progress have no events of their own.
  const status = useQuery({ ...workerQueries.status(), refetchInterval: 3000 });
  return (
    <Page title={text.title} subtitle={text.about}>
      <Loaded query={status}>{(data) => <Workers status={data} />}</Loaded>
    </Page>
  );
}

function Workers({ status }: { status: WorkersStatus }) {
  const [search, setSearch] = useUrlState("q");
  const [stopped, setStopped] = useUrlState("stopped");
  const groups = hostGroups(status.workers, search, stopped === "yes");
  const versions = mixedVersions(status.workers);
  const none = status.workers.every(({ state }) => state === "stopped");
  return (
    <>
      <div className={styles.filters}>
        <TextField
          label={text.search}
          type="search"
          data-search
          value={search}
          onChange={(event) => setSearch(event.target.value, { replace: true })}
        />
        <CheckField
          label={text.showStopped}
          checked={stopped === "yes"}
          onChange={(event) => setStopped(event.target.checked ? "yes" : "", { replace: true })}
        />
      </div>
      {versions.length > 0 && (
        <p className={styles.warning}>
          <Icon name="warning" /> {text.mixedVersions(versions.join(", "))}
        </p>
      )}
      <Unserved status={status} />
      {none && !search && <NoWorkers status={status} />}
      {groups.length === 0 && !(none && !search) && <Empty title={text.noMatch} />}
      {groups.map(({ host, workers }) => (
        <section key={host} className={styles.host} aria-label={host}>
          <h2>
            <Icon name="workers" /> {text.host(host, text.processes(workers.length))}
          </h2>
          {workers.map((worker) => (
            <WorkerCard key={worker.id} worker={worker} />
          ))}
        </section>
      ))}
    </>
  );
}

function NoWorkers({ status }: { status: WorkersStatus }) {
  const due = status.lanes.reduce(
    (sum, lane) => ({ value: sum.value + lane.due.value, exact: sum.exact && lane.due.exact }),
    { value: 0, exact: true },
  );
  return (
    <Empty title={text.empty}>
      <p>{text.emptyWhy(countText(due))}</p>
      <p className={styles.command}>
        <code>{text.emptyCommand}</code> <CopyButton text={text.emptyCommand} />
      </p>
    </Empty>
  );
}

function Unserved({ status }: { status: WorkersStatus }) {
  if (status.unserved.length === 0) return null;
  return (
    <Panel title={text.unserved}>
      <ul>
        {status.unserved.map(({ kind, due }) => (
          <li key={kind}>
            <Link href={jobsHref(`state:queued kind:${searchValue(kind)}`)}>
              {text.unservedText(countText(due), kind)}
            </Link>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

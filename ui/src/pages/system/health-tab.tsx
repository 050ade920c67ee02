import { useQuery } from "@tanstack/react-query";
import { type Doctor, type Finding, type SystemStatus, systemQueries } from "../../api/system";
import { useMayRead } from "../../hooks/use-session";
import { classNames } from "../../parts/class-names";
import { Icon, type IconName } from "../../parts/icon";
import { Facts, Panel } from "../../parts/page";
import { Forbidden, Loaded } from "../../parts/page-states";
import { type Column, Table } from "../../parts/table";
import { Duration, Instant } from "../../parts/time";
import { words } from "../../words";
import { bytesText, durationText, numberText, percentText } from "../../words/format";
import styles from "./system.module.css";

const text = words.system;
const EVERY = { refetchInterval: 15_000 };

/** Is the server well: readiness, the doctor's findings, versions, upkeep. */
export function HealthTab() {
  const ready = useQuery({ ...systemQueries.ready(), ...EVERY });
  const status = useQuery({ ...systemQueries.status(), ...EVERY });
  return (
    <>
      {ready.data && !ready.data.ready && (
        <div role="alert" className={styles.notReady}>
          <strong>{text.notReady}</strong>
          {ready.data.problems.map((problem) => (
            <p key={problem}>{problem}</p>
          ))}
        </div>
      )}
      <Panel title={text.doctor}>
        <Findings />
      </Panel>
      <Loaded query={status}>
        {(data) => (
          <>
            <Panel title={text.versions}>
              <Facts facts={factsOf(data)} />
            </Panel>
            <Panel title={text.duties} flush>
              <Table label={text.duties} dense rows={data.duties} columns={DUTIES} rowKey={({ name }) => name} />
            </Panel>
          </>
        )}
      </Loaded>
    </>
  );
}

function factsOf(status: SystemStatus): (readonly [string, string])[] {
  const { facts } = text;
  const oldest = status.oldest_transaction;
  return [
    [facts.server, status.server],
    [facts.rowlock, status.rowlock],
    [facts.schema, status.schema_name],
    [facts.version, facts.versionOf(numberText(status.version), numberText(status.made_for))],
    [facts.size, bytesText(status.database_bytes)],
    [facts.connections, `${numberText(status.connections)} / ${numberText(status.max_connections)}`],
    [facts.notify, percentText(status.notify_queue)],
    [
      facts.oldest,
      oldest === null
        ? facts.noOldest
        : facts.oldestText(durationText(oldest.open_for), oldest.who, String(oldest.pid)),
    ],
  ];
}

const DUTIES: Column<SystemStatus["duties"][number]>[] = [
  { key: "name", title: text.duty, cell: ({ name }) => name },
  { key: "every", title: text.every, width: "7rem", align: "end", cell: ({ every }) => durationText(every) },
  {
    key: "last",
    title: text.lastRun,
    width: "8rem",
    align: "end",
    cell: ({ last_run_at }) => <Instant at={last_run_at} />,
  },
  {
    key: "took",
    title: text.took,
    width: "7rem",
    align: "end",
    hideBelow: "phone",
    cell: ({ last_run_at, took }) => <Duration seconds={last_run_at ? took : null} />,
  },
];

const ICONS: Record<Finding["verdict"], IconName> = { ok: "check", warn: "warning", fail: "cross" };

function Findings() {
  const mayRead = useMayRead();
  const allowed = mayRead("jobs:read_all");
  const doctor = useQuery({ ...systemQueries.doctor(), enabled: allowed, refetchInterval: 60_000 });
  if (!allowed) return <Forbidden permission="jobs:read_all" />;
  return (
    <Loaded query={doctor} lines={5}>
      {(data) => <FindingList doctor={data} />}
    </Loaded>
  );
}

/** What needs a look stands open; what is well is folded away. */
function FindingList({ doctor }: { doctor: Doctor }) {
  const troubles = doctor.findings.filter(({ verdict }) => verdict !== "ok");
  const well = doctor.findings.filter(({ verdict }) => verdict === "ok");
  const order: Finding["verdict"][] = ["fail", "warn", "ok"];
  const sorted = troubles.sort((one, other) => order.indexOf(one.verdict) - order.indexOf(other.verdict));
  return (
    <div className={styles.findings}>
      {troubles.length === 0 && (
        <p className={classNames(styles.finding, styles.ok)}>
          <Icon name="check" /> {text.allWell(numberText(well.length))}
        </p>
      )}
      <ul className={styles.findings}>
        {sorted.map((finding, index) => (
          <FindingLine key={`${finding.check} ${index}`} finding={finding} />
        ))}
      </ul>
      {troubles.length > 0 && (
        <details>
          <summary>{text.wellChecks(numberText(well.length))}</summary>
          <ul className={styles.findings}>
            {well.map((finding, index) => (
              <FindingLine key={`${finding.check} ${index}`} finding={finding} />
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}

function FindingLine({ finding }: { finding: Finding }) {
  return (
    <li className={classNames(styles.finding, styles[finding.verdict])}>
      <Icon name={ICONS[finding.verdict]} />
      <div>
        <strong>{finding.check}</strong> <span className={styles.verdict}>{text.verdicts[finding.verdict]}</span>
        <p>{finding.says}</p>
        {finding.do && <p className={styles.advice}>{finding.do}</p>}
      </div>
    </li>
  );
}

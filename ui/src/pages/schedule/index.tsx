import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation, useParams } from "wouter";
import type { Job } from "../../api/client";
import { type Schedule, scheduleQueries } from "../../api/schedules";
import { jobHref, jobsHref } from "../../api/searches";
import { useMayOrder, useMayRead } from "../../hooks/use-session";
import { AuditHistory } from "../../parts/audit-history";
import { Button } from "../../parts/button";
import { JsonTree } from "../../parts/json-tree";
import { Facts, Page, Panel } from "../../parts/page";
import { Loaded, Loading } from "../../parts/page-states";
import { StateBadge } from "../../parts/state-badge";
import { type Column, Table } from "../../parts/table";
import { Elapsed, Instant } from "../../parts/time";
import { words } from "../../words";
import { instantText } from "../../words/format";
import { EditSchedule } from "../schedules/edit-schedule";
import { ruleText } from "../schedules/rule-text";
import { runsSearch, useLastRuns } from "../schedules/run-strip";
import { useScheduleOrders } from "../schedules/schedule-orders";
import { ScheduleStateBadge } from "../schedules/schedule-state";
import styles from "../schedules/schedules.module.css";

const text = words.schedules;

export default function SchedulePage() {
  const { name } = useParams<{ name: string }>();
  const one = useQuery({ ...scheduleQueries.one(name), refetchInterval: 10_000 });
  const [editing, setEditing] = useState(false);
  const mayRead = useMayRead();
  const schedule = one.data?.data;
  return (
    <Page
      title={text.schedule(name)}
      badge={schedule && <ScheduleStateBadge schedule={schedule} />}
      subtitle={schedule && <ScheduleSummary schedule={schedule} />}
      actions={schedule && <ScheduleActions schedule={schedule} onEdit={() => setEditing(true)} />}
    >
      <Loaded query={one}>
        {(versioned) => (
          <>
            <div className={styles.columns}>
              <Panel title={text.settings}>
                <ScheduleFacts schedule={versioned.data} />
              </Panel>
              <Panel title={text.nextRuns}>
                <NextRuns schedule={versioned.data} />
              </Panel>
            </div>
            <Panel
              flush
              title={text.lastRuns}
              actions={<Link href={jobsHref(runsSearch(name))}>{words.shell.nav.jobs}</Link>}
            >
              <LastRuns name={name} />
            </Panel>
            <Panel title={text.arguments}>
              <JsonTree label={text.arguments} value={versioned.data.args} />
            </Panel>
            {hasOptions(versioned.data) && (
              <Panel title={text.options}>
                <JsonTree label={text.options} value={versioned.data.options} />
              </Panel>
            )}
            {mayRead("audit:read") && (
              <Panel title={text.history} flush>
                <AuditHistory search={{ target: `schedule:${name}` }} empty={text.noHistory} />
              </Panel>
            )}
            {editing && <EditSchedule opened={versioned} onClose={() => setEditing(false)} />}
          </>
        )}
      </Loaded>
    </Page>
  );
}

const hasOptions = (schedule: Schedule): boolean => Object.values(schedule.options).some((value) => value !== null);

const RUN_COLUMNS: Column<Job>[] = [
  { key: "id", title: text.job, cell: (job) => <Link href={jobHref(job.id)}>{job.id}</Link> },
  { key: "state", title: text.state, width: "11rem", cell: (job) => <StateBadge state={job.state} /> },
  {
    key: "created",
    title: text.createdAt,
    width: "7rem",
    align: "end",
    hideBelow: "phone",
    cell: (job) => <Instant at={job.created_at} />,
  },
  {
    key: "ran",
    title: text.runTime,
    width: "7rem",
    align: "end",
    hideBelow: "phone",
    cell: (job) => <Elapsed since={job.claimed_at} until={job.finished_at} />,
  },
];

function LastRuns({ name }: { name: string }) {
  const jobs = useLastRuns(name, 20);
  const [, navigate] = useLocation();
  if (!jobs) return <Loading lines={3} />;
  if (jobs.length === 0) return <p className={styles.none}>{text.noRuns}</p>;
  return (
    <Table
      dense
      label={text.lastRuns}
      rows={jobs}
      columns={RUN_COLUMNS}
      rowKey={(job) => job.id}
      onOpen={(job) => navigate(jobHref(job.id))}
    />
  );
}

function ScheduleSummary({ schedule }: { schedule: Schedule }) {
  return (
    <>
      {ruleText(schedule)} {schedule.cron !== null && `(${schedule.cron}, ${schedule.tz})`}
    </>
  );
}

function ScheduleActions({ schedule, onEdit }: { schedule: Schedule; onEdit: () => void }) {
  const { items, dialog } = useScheduleOrders(schedule);
  const mayOrder = useMayOrder();
  return (
    <>
      {mayOrder("schedules:manage", { kind: schedule.kind }) && (
        <Button icon="edit" onClick={onEdit}>
          {text.edit}
        </Button>
      )}
      {items.map((item) => (
        <Button
          key={item.label}
          tone={item.danger ? "danger" : "plain"}
          {...(item.icon ? { icon: item.icon } : {})}
          onClick={item.onSelect}
        >
          {item.label}
        </Button>
      ))}
      {dialog}
    </>
  );
}

function ScheduleFacts({ schedule }: { schedule: Schedule }) {
  const windows = schedule.windows.map(({ hours, days, then }) => text.windowText(hours, days, then)).join("; ");
  return (
    <Facts
      facts={[
        [text.kind, schedule.kind],
        [text.zone, schedule.tz],
        [text.missed, text.missedText[schedule.missed]],
        ...(schedule.missed === "all" ? [[text.fields.most_missed, String(schedule.most_missed)] as const] : []),
        [text.overlap, text.overlapText[schedule.overlap]],
        [text.windows, windows || text.noWindows],
        [text.last, <Instant key="last" at={schedule.last_at} />],
        [text.state, schedule.declared ? text.fromCode : words.none],
        [text.tenant, schedule.tenant ?? words.none],
        [text.updated, <Instant key="updated" at={schedule.updated_at} />],
        ...(schedule.skipped_at
          ? [[text.skipped(schedule.skipped_why ?? ""), <Instant key="skipped" at={schedule.skipped_at} />] as const]
          : []),
      ]}
    />
  );
}

function NextRuns({ schedule }: { schedule: Schedule }) {
  const next = useQuery({
    ...scheduleQueries.next(schedule.name, 5),
    enabled: schedule.enabled,
    refetchInterval: 60_000,
  });
  if (!schedule.enabled) return <p>{text.paused}</p>;
  return (
    <Loaded query={next} lines={5}>
      {({ items }) => (
        <ol className={styles.nextRuns}>
          {items.map((slot) => (
            <li key={slot}>
              <span>{instantText(slot)}</span>
              <Instant at={slot} />
            </li>
          ))}
        </ol>
      )}
    </Loaded>
  );
}

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation } from "wouter";
import { type Schedule, scheduleQueries } from "../../api/schedules";
import { scheduleHref } from "../../api/searches";
import { useMayOrder } from "../../hooks/use-session";
import { Button } from "../../parts/button";
import { Menu } from "../../parts/menu";
import { Page, Panel } from "../../parts/page";
import { Empty, Loaded } from "../../parts/page-states";
import { type Column, Table } from "../../parts/table";
import { Instant } from "../../parts/time";
import { words } from "../../words";
import { CreateSchedule } from "./edit-schedule";
import { ruleText } from "./rule-text";
import { RunStrip } from "./run-strip";
import { useScheduleOrders } from "./schedule-orders";
import { ScheduleStateBadge } from "./schedule-state";
import styles from "./schedules.module.css";

const text = words.schedules;

const COLUMNS: Column<Schedule>[] = [
  {
    key: "name",
    title: text.name,
    width: "min(10rem, 34vw)",
    cell: ({ name }) => <Link href={scheduleHref(name)}>{name}</Link>,
  },
  {
    key: "state",
    title: text.state,
    width: "5.5rem",
    cell: (schedule) => <ScheduleStateBadge schedule={schedule} />,
  },
  {
    key: "rule",
    title: text.rule,
    hideBelow: "phone",
    cell: (schedule) => (
      <span title={schedule.cron ?? ruleText(schedule)}>
        {ruleText(schedule)} {schedule.cron !== null && <span className={styles.faint}>{schedule.tz}</span>}
      </span>
    ),
  },
  {
    key: "kind",
    title: text.kind,
    width: "8rem",
    hideBelow: "laptop",
    cell: ({ kind }) => <span title={kind}>{kind}</span>,
  },
  {
    key: "runs",
    title: text.lastRuns,
    width: "10rem",
    hideBelow: "tablet",
    cell: ({ name }) => <RunStrip name={name} />,
  },
  {
    key: "last",
    title: text.last,
    width: "5.5rem",
    align: "end",
    hideBelow: "tablet",
    cell: ({ last_at }) => <Instant at={last_at} />,
  },
  {
    key: "next",
    title: text.next,
    width: "5.5rem",
    align: "end",
    cell: ({ next_at, enabled }) => (enabled ? <Instant at={next_at} /> : words.none),
  },
  {
    key: "orders",
    title: words.orders,
    heading: null,
    width: "3rem",
    align: "end",
    hideBelow: "phone",
    cell: (schedule) => <ScheduleMenu schedule={schedule} />,
  },
];

function ScheduleMenu({ schedule }: { schedule: Schedule }) {
  const { items, dialog } = useScheduleOrders(schedule);
  if (items.length === 0) return null;
  return (
    <>
      <Menu label={text.orders(schedule.name)} items={items} />
      {dialog}
    </>
  );
}

export default function SchedulesPage() {
  const schedules = useQuery({ ...scheduleQueries.list(), refetchInterval: 10_000 });
  const mayOrder = useMayOrder();
  const [creating, setCreating] = useState(false);
  const [, navigate] = useLocation();
  const create = mayOrder("schedules:manage") && (
    <Button icon="plus" onClick={() => setCreating(true)}>
      {text.create}
    </Button>
  );
  return (
    <Page title={text.title} subtitle={text.about} actions={create}>
      <Panel flush>
        <Loaded query={schedules}>
          {({ items }) =>
            items.length === 0 ? (
              <Empty title={text.empty}>
                <p>{text.emptyWhy}</p>
                <pre className={styles.snippet}>{text.emptySnippet}</pre>
              </Empty>
            ) : (
              <Table
                label={text.title}
                rows={items}
                columns={COLUMNS}
                rowKey={({ name }) => name}
                onOpen={({ name }) => navigate(scheduleHref(name))}
              />
            )
          }
        </Loaded>
      </Panel>
      {creating && (
        <CreateSchedule onClose={() => setCreating(false)} onCreated={(name) => navigate(scheduleHref(name))} />
      )}
    </Page>
  );
}

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useParams } from "wouter";
import { type Lane, laneQueries, type LaneLoad } from "../../api/lanes";
import { workerQueries } from "../../api/workers";
import { jobsHref, searchValue } from "../../api/searches";
import { statsQueries } from "../../api/stats";
import { useMayOrder, useMayRead } from "../../hooks/use-session";
import { AuditHistory } from "../../parts/audit-history";
import { Button } from "../../parts/button";
import { Chart } from "../../parts/chart";
import { Facts, Page, Panel } from "../../parts/page";
import { Loaded } from "../../parts/page-states";
import { Duration, Instant } from "../../parts/time";
import { words } from "../../words";
import { countText, durationText, numberText } from "../../words/format";
import { EditLane } from "../lanes/edit-lane";
import { useLaneOrders } from "../lanes/lane-orders";
import { LaneStateBadge } from "../lanes/lane-state";
import styles from "../lanes/lanes.module.css";
import { throughputOf } from "../overview/series-data";
import { LaneSlots } from "./lane-slots";
import { withWorkers } from "./with-workers";

const text = words.lanes;
/** Milliseconds between two reads of the load. */
const EVERY = 5000;

export default function LanePage() {
  const { name } = useParams<{ name: string }>();
  const lanes = useQuery({ ...laneQueries.list(), refetchInterval: EVERY });
  const one = useQuery(laneQueries.one(name));
  const status = useQuery({ ...workerQueries.status(), refetchInterval: EVERY });
  const listed = lanes.data?.items.find((lane) => lane.name === name);
  const load = listed && withWorkers(listed, status.data?.workers);
  const [editing, setEditing] = useState(false);
  const mayRead = useMayRead();
  return (
    <Page
      title={text.lane(name)}
      badge={load && <LaneStateBadge lane={load} />}
      actions={load && one.data && <LaneActions lane={load} onEdit={() => setEditing(true)} />}
    >
      <Loaded query={one}>
        {(versioned) => (
          <>
            {load && <LaneLoadPanel lane={load} />}
            <LaneSlots name={name} />
            <LaneChart name={name} />
            <Panel title={text.settings}>
              <LaneSettings lane={versioned.data} />
            </Panel>
            {mayRead("audit:read") && (
              <Panel title={text.history} flush>
                <AuditHistory search={{ target: `lane:${name}` }} empty={text.noHistory} />
              </Panel>
            )}
            {editing && <EditLane opened={versioned} onClose={() => setEditing(false)} />}
          </>
        )}
      </Loaded>
    </Page>
  );
}

function LaneActions({ lane, onEdit }: { lane: LaneLoad; onEdit: () => void }) {
  const { possible, ask, dialog } = useLaneOrders(lane);
  const mayOrder = useMayOrder();
  return (
    <>
      <Link href={jobsHref(`lane:${searchValue(lane.name)}`)}>{text.openJobs}</Link>
      {mayOrder("workers:manage", { lane: lane.name }) && (
        <Button icon="edit" onClick={onEdit}>
          {text.edit}
        </Button>
      )}
      {possible.map((order) => (
        <Button key={order} icon={order === "resume" ? "play" : "pause"} onClick={() => ask(order)}>
          {text[order]}
        </Button>
      ))}
      {dialog}
    </>
  );
}

function LaneLoadPanel({ lane }: { lane: LaneLoad }) {
  const queued = (extra: string) => jobsHref(`state:queued lane:${searchValue(lane.name)}${extra}`);
  return (
    <Panel title={text.load}>
      <Facts
        facts={[
          [text.slotsInUse, `${numberText(lane.used)} / ${numberText(lane.total_slots)}`],
          [
            text.due,
            <Link key="due" href={queued("")}>
              {countText(lane.due)}
            </Link>,
          ],
          [text.scheduled, countText(lane.scheduled)],
          [text.oldest, <Duration key="oldest" seconds={lane.oldest_wait} />],
          [text.workers, numberText(lane.workers)],
        ]}
      />
    </Panel>
  );
}

function LaneSettings({ lane }: { lane: Lane }) {
  const { fields } = text;
  const spanOr = (seconds: number | null, none: string) => (seconds === null ? none : durationText(seconds));
  return (
    <Facts
      facts={[
        [fields.kinds, lane.kinds.map((kind) => (kind === "*" ? text.allOther : kind)).join(", ") || words.none],
        [fields.slots, numberText(lane.slots)],
        [fields.max_total, lane.max_total === null ? text.noCap : numberText(lane.max_total)],
        [fields.order, lane.order],
        [fields.rate, lane.rate ? `${lane.rate.amount} / ${durationText(lane.rate.per)}` : text.noLimit],
        [fields.poll_interval, durationText(lane.poll_interval)],
        [fields.heartbeat_timeout, durationText(lane.heartbeat_timeout)],
        [fields.progress_timeout, spanOr(lane.progress_timeout, text.never)],
        [fields.aging_interval, spanOr(lane.aging_interval, text.never)],
        [fields.requires_approval, lane.requires_approval ? words.yes : words.no],
        [fields.version, numberText(lane.version)],
        [fields.updated_at, <Instant key="updated" at={lane.updated_at} />],
      ]}
    />
  );
}

function LaneChart({ name }: { name: string }) {
  const series = useQuery({ ...statsQueries.series({ window: "1h", lane: name }), refetchInterval: 15_000 });
  return (
    <Panel>
      <Loaded query={series} lines={6}>
        {(list) => (
          <div className={styles.wide}>
            <Chart title={text.ends} data={throughputOf(list)} height={140} />
          </div>
        )}
      </Loaded>
    </Panel>
  );
}

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation } from "wouter";
import { type LaneLoad, laneQueries } from "../../api/lanes";
import { jobsHref, laneHref, searchValue } from "../../api/searches";
import { useMayOrder } from "../../hooks/use-session";
import { Button } from "../../parts/button";
import { Menu } from "../../parts/menu";
import { Meter } from "../../parts/meter";
import { Page, Panel } from "../../parts/page";
import { Empty, Loaded } from "../../parts/page-states";
import { type Column, Table } from "../../parts/table";
import { Duration } from "../../parts/time";
import { words } from "../../words";
import { countText, numberText } from "../../words/format";
import { useLaneOrders } from "./lane-orders";
import { LaneStateBadge } from "./lane-state";
import styles from "./lanes.module.css";
import { CreateLane } from "./new-lane";

const text = words.lanes;

const kindsText = (lane: LaneLoad): string =>
  lane.kinds.map((kind) => (kind === "*" ? text.allOther : kind)).join(", ");

const COLUMNS: Column<LaneLoad>[] = [
  {
    key: "name",
    title: text.name,
    width: "min(9rem, 32vw)",
    cell: (lane) => <Link href={laneHref(lane.name)}>{lane.name}</Link>,
  },
  { key: "state", title: text.state, width: "6.5rem", cell: (lane) => <LaneStateBadge lane={lane} /> },
  {
    key: "kinds",
    title: text.kinds,
    hideBelow: "laptop",
    cell: (lane) => <span title={kindsText(lane)}>{kindsText(lane)}</span>,
  },
  {
    key: "slots",
    title: text.slotsInUse,
    width: "9rem",
    hideBelow: "phone",
    cell: (lane) => {
      const [used, all] = [numberText(lane.used), numberText(lane.total_slots)];
      return (
        <span className={styles.slots}>
          <Meter value={lane.used} max={lane.total_slots} label={text.slotsOf(lane.name, used, all)} />
          <span>
            {used}/{all}
          </span>
        </span>
      );
    },
  },
  {
    key: "due",
    title: text.due,
    width: "5rem",
    align: "end",
    cell: (lane) => (
      <Link href={jobsHref(`state:queued lane:${searchValue(lane.name)}`)}>{countText(lane.due, true)}</Link>
    ),
  },
  {
    key: "scheduled",
    title: text.scheduled,
    width: "6rem",
    align: "end",
    hideBelow: "tablet",
    cell: (lane) => countText(lane.scheduled, true),
  },
  {
    key: "oldest",
    title: text.oldest,
    width: "7rem",
    align: "end",
    hideBelow: "tablet",
    cell: (lane) => <Duration seconds={lane.oldest_wait} />,
  },
  {
    key: "workers",
    title: text.workers,
    width: "5.5rem",
    align: "end",
    hideBelow: "phone",
    cell: (lane) => numberText(lane.workers),
  },
  {
    key: "orders",
    title: words.orders,
    heading: null,
    hideBelow: "phone",
    width: "3rem",
    align: "end",
    cell: (lane) => <LaneMenu lane={lane} />,
  },
];

function LaneMenu({ lane }: { lane: LaneLoad }) {
  const { possible, ask, dialog } = useLaneOrders(lane);
  if (possible.length === 0) return null;
  return (
    <>
      <Menu
        label={text.orders(lane.name)}
        items={possible.map((order) => ({
          label: text[order],
          icon: order === "resume" ? "play" : "pause",
          onSelect: () => ask(order),
        }))}
      />
      {dialog}
    </>
  );
}

/** Every lane with its load, which the live feed renews. */
export default function LanesPage() {
  const lanes = useQuery(laneQueries.list());
  const mayOrder = useMayOrder();
  const [creating, setCreating] = useState(false);
  const [, navigate] = useLocation();
  const create = mayOrder("workers:manage") && (
    <Button icon="plus" onClick={() => setCreating(true)}>
      {text.create}
    </Button>
  );
  return (
    <Page title={text.title} subtitle={text.about} actions={create}>
      <Panel flush>
        <Loaded query={lanes}>
          {({ items }) =>
            items.length === 0 ? (
              <Empty title={text.empty}>{text.emptyWhy}</Empty>
            ) : (
              <Table
                label={text.title}
                rows={items}
                columns={COLUMNS}
                rowKey={(lane) => lane.name}
                onOpen={(lane) => navigate(laneHref(lane.name))}
              />
            )
          }
        </Loaded>
      </Panel>
      {creating && <CreateLane onClose={() => setCreating(false)} />}
    </Page>
  );
}

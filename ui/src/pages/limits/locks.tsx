import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import type { Schema } from "../../api/client";
import { limitQueries, type Lock } from "../../api/limits";
import { jobHref } from "../../api/searches";
import { Panel } from "../../parts/page";
import { Empty, Loaded } from "../../parts/page-states";
import { type Column, Table } from "../../parts/table";
import { Elapsed } from "../../parts/time";
import { words } from "../../words";
import styles from "./limits.module.css";

const text = words.limits;

function LockUser({ user }: { user: Schema["LockUserAnswer"] }) {
  return (
    <span className={styles.lockUser}>
      {user.job === null ? (
        <span>
          {user.process} ({text.process})
        </span>
      ) : (
        <Link href={jobHref(user.job)}>{user.kind ?? user.job}</Link>
      )}{" "}
      <Elapsed since={user.since} />
    </span>
  );
}

const COLUMNS: Column<Lock>[] = [
  { key: "namespace", title: text.namespace, width: "10rem", cell: (lock) => lock.namespace },
  { key: "key", title: text.key, cell: (lock) => lock.key },
  { key: "holder", title: text.holder, cell: (lock) => (lock.holder ? <LockUser user={lock.holder} /> : text.free) },
  {
    key: "waiters",
    title: text.waiters,
    hideBelow: "phone",
    cell: (lock) =>
      lock.waiters.length === 0
        ? words.none
        : lock.waiters.map((user) => <LockUser key={`${user.process} ${user.job ?? ""}`} user={user} />),
  },
];

/** Who holds each lock and who waits for it. A lock ends with its holder: nothing has to be released by hand. */
export function Locks() {
  const locks = useQuery({ ...limitQueries.locks(), refetchInterval: 3000 });
  return (
    <Panel flush>
      <Loaded query={locks}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title={text.locksEmpty}>{text.locksEmptyWhy}</Empty>
          ) : (
            <Table
              label={text.tabs.locks}
              rows={items}
              columns={COLUMNS}
              rowKey={(lock) => `${lock.namespace} ${lock.key}`}
            />
          )
        }
      </Loaded>
    </Panel>
  );
}

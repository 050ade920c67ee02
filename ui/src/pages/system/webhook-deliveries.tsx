import { useQuery } from "@tanstack/react-query";
import { Link, useLocation } from "wouter";
import { type Webhook, type WebhookDelivery, webhookQueries } from "../../api/webhooks";
import { Panel } from "../../parts/page";
import { Loaded } from "../../parts/page-states";
import { StateBadge } from "../../parts/state-badge";
import { type Column, Table } from "../../parts/table";
import { Instant } from "../../parts/time";
import { words } from "../../words";
import { numberText } from "../../words/format";
import styles from "./system.module.css";

const text = words.webhooks;

function Answer({ delivery }: { delivery: WebhookDelivery }) {
  const said = delivery.status === null ? delivery.error : text.status(String(delivery.status));
  return <span title={said ?? undefined}>{said ?? words.none}</span>;
}

const COLUMNS: Column<WebhookDelivery>[] = [
  {
    key: "event",
    title: text.event,
    cell: ({ id, event }) => (
      <Link href={`/jobs/${id}`} title={event}>
        {event}
      </Link>
    ),
  },
  {
    key: "job",
    title: text.job,
    width: "10.5rem",
    hideBelow: "tablet",
    cell: ({ job_id }) => (job_id ? <Link href={`/jobs/${job_id}`}>{job_id}</Link> : text.testJob),
  },
  { key: "state", title: text.state, width: "min(11rem, 35vw)", cell: ({ state }) => <StateBadge state={state} /> },
  {
    key: "attempt",
    title: text.attempt,
    width: "5.5rem",
    align: "end",
    hideBelow: "phone",
    cell: ({ attempt, max_attempts }) => `${numberText(attempt)}/${numberText(max_attempts)}`,
  },
  { key: "answer", title: text.answer, hideBelow: "phone", cell: (delivery) => <Answer delivery={delivery} /> },
  {
    key: "at",
    title: text.at,
    width: "6rem",
    align: "end",
    hideBelow: "phone",
    cell: ({ created_at }) => <Instant at={created_at} />,
  },
];

/** What was last sent to a webhook, and what it answered. Each delivery is a job: a failed one is retried there. */
export function WebhookDeliveries({ webhook }: { webhook: Webhook }) {
  const query = useQuery({ ...webhookQueries.deliveries(webhook.id), refetchInterval: 3000 });
  const [, navigate] = useLocation();
  return (
    <Panel title={text.deliveries(webhook.url)} flush>
      <Loaded query={query} lines={3}>
        {({ items }) =>
          items.length === 0 ? (
            <p className={styles.padded}>{text.noDeliveries}</p>
          ) : (
            <Table
              dense
              label={text.deliveries(webhook.url)}
              rows={items}
              columns={COLUMNS}
              rowKey={({ id }) => id}
              onOpen={({ id }) => navigate(`/jobs/${id}`)}
            />
          )
        }
      </Loaded>
    </Panel>
  );
}

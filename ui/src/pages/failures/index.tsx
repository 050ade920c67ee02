import { useQuery } from "@tanstack/react-query";
import { Link, useLocation, useParams } from "wouter";
import { type FailureGroup, failureQueries } from "../../api/failures";
import { WINDOWS } from "../../api/stats";
import { useUrlChoice, useUrlState } from "../../hooks/use-url-state";
import { SelectField } from "../../parts/field";
import { Page, Panel } from "../../parts/page";
import { Empty, Loaded } from "../../parts/page-states";
import { Sparkline } from "../../parts/sparkline";
import { type Column, Table } from "../../parts/table";
import { Segments } from "../../parts/tabs";
import { Instant } from "../../parts/time";
import { words } from "../../words";
import { numberText } from "../../words/format";
import { causeOf } from "./cause";
import styles from "./failures.module.css";
import { FailureDetail } from "./detail";

const text = words.failures;

export default function FailuresPage() {
  const { fingerprint } = useParams();
  return fingerprint ? <FailureDetail key={fingerprint} fingerprint={fingerprint} /> : <FailureList />;
}

function FailureList() {
  const [window, setWindow] = useUrlChoice("window", ["24h", "1h", "7d"]);
  const [sort, setSort] = useUrlChoice("sort", ["recent", "count", "new"]);
  const [state, setState] = useUrlChoice("state", ["open", "muted", "all"]);
  const [kind, setKind] = useUrlState("kind");
  const [, navigate] = useLocation();
  const query = useQuery({
    ...failureQueries.groups({ window, sort, kind, state: state === "all" ? null : state }),
    refetchInterval: 15_000,
    placeholderData: (before) => before,
  });
  return (
    <Page title={text.title}>
      <div className={styles.tools}>
        <Segments
          label={text.window}
          choices={WINDOWS.map((name) => ({ name, label: words.windows[name] }))}
          chosen={window}
          onChoose={setWindow}
        />
        <Segments
          label={text.show}
          choices={(["open", "muted", "all"] as const).map((name) => ({ name, label: text.states[name] }))}
          chosen={state}
          onChoose={setState}
        />
        <Segments
          label={text.order}
          choices={(["recent", "count", "new"] as const).map((name) => ({ name, label: text.sort[name] }))}
          chosen={sort}
          onChoose={setSort}
        />
        <KindChoice kind={kind} onChoose={setKind} groups={query.data?.items ?? []} />
      </div>
      <Panel flush>
        <Loaded query={query} lines={8}>
          {({ items }) =>
            items.length === 0 ? (
              <Empty title={state === "muted" ? text.emptyMuted : text.empty}>
                {state !== "muted" && text.emptyText(words.windows[window])}
              </Empty>
            ) : (
              <Table
                label={text.group}
                rows={items}
                columns={COLUMNS}
                rowKey={(group) => group.fingerprint}
                onOpen={(group) => navigate(`/failures/${group.fingerprint}?window=${window}`)}
              />
            )
          }
        </Loaded>
      </Panel>
    </Page>
  );
}

interface KindChoiceProps {
  kind: string;
  groups: readonly FailureGroup[];
  onChoose: (kind: string) => void;
}

function KindChoice({ kind, groups, onChoose }: KindChoiceProps) {
  const kinds = [...new Set([...groups.map((group) => group.kind), ...(kind ? [kind] : [])])].sort();
  return (
    <div className={styles.kind}>
      <SelectField label={text.kind} value={kind} onChange={(event) => onChoose(event.target.value)}>
        <option value="">{text.allKinds}</option>
        {kinds.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </SelectField>
    </div>
  );
}

const COLUMNS: readonly Column<FailureGroup>[] = [
  {
    key: "cause",
    title: text.column.cause,
    cell: (group) => (
      <>
        <Link href={`/failures/${group.fingerprint}`} title={causeOf(group)} className={styles.cause ?? ""}>
          {causeOf(group)}
        </Link>
        <span className={styles.onPhone}>{[group.kind, group.frame].filter(Boolean).join(" · ")}</span>
      </>
    ),
  },
  {
    key: "kind",
    title: text.column.kind,
    width: "14rem",
    hideBelow: "phone",
    cell: (group) => (
      <>
        <span title={group.kind}>{group.kind}</span>
        {group.frame && (
          <span title={group.frame} className={styles.frame}>
            {group.frame}
          </span>
        )}
      </>
    ),
  },
  {
    key: "when",
    title: text.column.when,
    width: "7rem",
    hideBelow: "tablet",
    cell: (group) => <Sparkline values={group.steps} label={text.sparkline(causeOf(group))} tone="danger" />,
  },
  {
    key: "within",
    title: text.column.within,
    width: "7.5rem",
    align: "end",
    cell: (group) => numberText(group.within),
  },
  {
    key: "all",
    title: text.column.all,
    width: "4rem",
    align: "end",
    hideBelow: "tablet",
    cell: (group) => numberText(group.failed + group.retried),
  },
  {
    key: "first",
    title: text.column.first,
    width: "5.5rem",
    align: "end",
    hideBelow: "laptop",
    cell: (group) => <Instant at={group.first_seen} />,
  },
  {
    key: "last",
    title: text.column.last,
    width: "6.5rem",
    align: "end",
    hideBelow: "phone",
    cell: (group) => <Instant at={group.last_seen} />,
  },
];

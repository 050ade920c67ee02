import { useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import type { Job } from "../../api/client";
import type { JobsPage as FoundJobs } from "../../api/jobs";
import { useMayOrder } from "../../hooks/use-session";
import { useShortcuts } from "../../hooks/use-shortcuts";
import { readStored, useStored } from "../../hooks/use-stored";
import { useUrlChoice, useUrlState } from "../../hooks/use-url-state";
import { type BulkAction, BulkOrderDialog, type BulkTarget } from "../../parts/bulk-order";
import { Button } from "../../parts/button";
import { CopyButton } from "../../parts/copy-button";
import { Icon } from "../../parts/icon";
import { Page, Panel } from "../../parts/page";
import { Empty, ErrorNotice, Loading } from "../../parts/page-states";
import { type Column, Table } from "../../parts/table";
import { words } from "../../words";

import { columnsOf } from "./columns";
import styles from "./jobs.module.css";
import { SearchBox } from "./search-box";
import { stateOf, termsOf, withoutTerm, withState } from "./search-terms";
import { allLoaded, extended, NOTHING, type Selection, statesOf, toggled } from "./selection";
import { SelectionBar } from "./selection-bar";
import { StateTabs } from "./state-tabs";
import { Toolbar } from "./toolbar";
import { useJobs } from "./use-jobs";

const text = words.jobs;

export default function JobsPage() {
  const [search, setSearch] = useUrlState("q");
  const [sort] = useUrlChoice("sort", ["newest", "oldest"]);
  const [columnKeys] = useUrlState("columns");
  const [stored] = useState(() => readStored("rowlock.columns") ?? "");
  const [density, setDensity] = useStored("density", ["roomy", "dense"]);
  const [params] = useSearchParams();
  const [, navigate] = useLocation();
  const mayOrder = useMayOrder();
  const { query, rows, first, arrived, refresh } = useJobs({ q: search, sort });
  const [selection, setSelection] = useSelection(search);
  const [order, setOrder] = useState<{ action: BulkAction; target: BulkTarget } | null>(null);

  const ids = rows.map((job) => job.id);
  const target = (): BulkTarget => (selection.matching ? { search } : { ids: [...selection.ids] });
  /** The selected jobs get the order of a key; without a selection, the job under the cursor. */
  const orderByKey = (key: string, job: Job) => {
    const action = ({ a: "approve", c: "cancel", r: "retry" } as const)[key];
    if (!action) return;
    if (selection.ids.size > 0) {
      if (mayOrder(`jobs:${action}`)) setOrder({ action, target: target() });
    } else if (mayOrder(`jobs:${action}`, job)) setOrder({ action, target: { ids: [job.id] } });
  };
  useShortcuts({ ".": refresh });

  const found = first?.count;
  return (
    <Page
      title={text.title}
      actions={
        mayOrder("jobs:submit") && (
          <Link href="/jobs/new" className={styles.newJob ?? ""}>
            <Icon name="plus" /> {text.newJob}
          </Link>
        )
      }
    >
      <SearchBox
        search={search}
        onSearch={(next) => setSearch(next)}
        error={query.error}
        focus={params.get("focus") === "search"}
      />
      <StateTabs search={search} chosen={stateOf(search)} onChoose={(state) => setSearch(withState(search, state))} />
      <Panel flush>
        <Toolbar
          search={search}
          sort={sort}
          found={first}
          arrived={arrived}
          density={density}
          onDensity={setDensity}
          onRefresh={refresh}
        />
        {query.isPending && <Loading lines={12} />}
        {query.error && !first && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
        {first && rows.length === 0 && <Nothing search={search} found={first} onSearch={setSearch} />}
        {rows.length > 0 && (
          <Table
            label={text.title}
            rows={rows}
            columns={[selectColumn(selection, setSelection, ids), ...columnsOf(columnKeys || stored)]}
            rowKey={(job) => job.id}
            onOpen={(job) => navigate(`/jobs/${job.id}`)}
            selected={selection.ids}
            onSelect={(job, range) =>
              setSelection(range ? extended(selection, job.id, ids) : toggled(selection, job.id))
            }
            onKey={orderByKey}
            dense={density === "dense"}
            {...(found?.exact && { total: found.value })}
            onEnd={() => {
              if (query.hasNextPage && !query.isFetching && !first?.cut_off) void query.fetchNextPage();
            }}
          />
        )}
        {query.hasNextPage && rows.length > 0 && (
          <div className={styles.further}>
            {first?.cut_off && <span>{text.cutOff}</span>}
            <Button busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
              {first?.cut_off ? text.lookFurther : words.loadMore}
            </Button>
          </div>
        )}
      </Panel>
      {selection.ids.size > 0 && (
        <SelectionBar
          selection={selection}
          states={statesOf(selection, rows, stateOf(search))}
          complete={ids.length > 0 && ids.every((id) => selection.ids.has(id)) && query.hasNextPage}
          found={found}
          onMatching={() => setSelection({ ...selection, matching: true })}
          onClear={() => setSelection(NOTHING)}
          onOrder={(action) => setOrder({ action, target: target() })}
        />
      )}
      {order && (
        <BulkOrderDialog
          {...order}
          onClose={() => setOrder(null)}
          onEnd={() => {
            setSelection(NOTHING);
            refresh();
          }}
        />
      )}
    </Page>
  );
}

/** The selection, which ends with its search: a hidden choice must never get an order. */
function useSelection(search: string): readonly [Selection, (selection: Selection) => void] {
  const [selection, setSelection] = useState(NOTHING);
  const [chosenIn, setChosenIn] = useState(search);
  if (chosenIn !== search) {
    setChosenIn(search);
    setSelection(NOTHING);
  }
  return [chosenIn === search ? selection : NOTHING, setSelection];
}

function selectColumn(
  selection: Selection,
  setSelection: (selection: Selection) => void,
  ids: readonly string[],
): Column<Job> {
  return {
    key: "select",
    title: text.selectAll,
    heading: (
      <input
        type="checkbox"
        className={styles.check}
        aria-label={text.selectAll}
        checked={ids.length > 0 && ids.every((id) => selection.ids.has(id))}
        onChange={() => setSelection(allLoaded(selection, ids))}
      />
    ),
    width: "2.75rem",
    cell: (job) => (
      <input
        type="checkbox"
        className={styles.check}
        aria-label={text.select(job.id)}
        checked={selection.ids.has(job.id)}
        onChange={(event) => {
          const range = (event.nativeEvent as MouseEvent).shiftKey;
          setSelection(range ? extended(selection, job.id, ids) : toggled(selection, job.id));
        }}
      />
    ),
  };
}

interface NothingProps {
  search: string;
  found: FoundJobs;
  onSearch: (search: string) => void;
}

/** No jobs at all: how to enqueue one. No match: what to leave out. */
function Nothing({ search, found, onSearch }: NothingProps) {
  if (search === "")
    return (
      <Empty title={text.empty.title}>
        <p>{text.empty.text}</p>
        {["await my_task.enqueue()", "rowlock enqueue my_task", `curl -d '{"kind": "my_task"}' …/api/v1/jobs`].map(
          (line) => (
            <div key={line} className={styles.snippet}>
              <code>{line}</code> <CopyButton text={line} />
            </div>
          ),
        )}
      </Empty>
    );
  const terms = termsOf(search);
  return (
    <Empty
      title={text.empty.matchTitle}
      actions={
        <>
          {terms.length > 1 &&
            terms.slice(0, 4).map((term) => (
              <Button key={term} onClick={() => onSearch(withoutTerm(search, term))}>
                {text.empty.without(term)}
              </Button>
            ))}
          <Button tone="primary" onClick={() => onSearch("")}>
            {text.empty.clear}
          </Button>
        </>
      }
    >
      <p>{found.cut_off ? text.cutOff : text.empty.match}</p>
      {found.suggestion && (
        <p>
          {text.suggestion}{" "}
          <button type="button" className={styles.suggested} onClick={() => onSearch(found.suggestion ?? "")}>
            {found.suggestion}
          </button>
        </p>
      )}
    </Empty>
  );
}

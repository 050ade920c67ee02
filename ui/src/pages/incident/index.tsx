import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useSearchParams } from "wouter";
import { root } from "../../api/root";
import { jobsHref } from "../../api/searches";
import { statsQueries, WINDOWS } from "../../api/stats";
import { systemQueries } from "../../api/system";
import { useMayRead } from "../../hooks/use-session";
import { Button } from "../../parts/button";
import { Chart, type ChartMarker } from "../../parts/chart";
import { deployMarkers } from "../../parts/chart-markers";
import { copyText } from "../../parts/copy-text";
import { TextField } from "../../parts/field";
import { Page, Panel } from "../../parts/page";
import { Loaded } from "../../parts/page-states";
import { useToast } from "../../parts/toast";
import { words } from "../../words";
import { numberText } from "../../words/format";
import { durationsOf, throughputOf } from "../overview/series-data";
import { ChangeList } from "./change-list";
import { DeployTable } from "./deploy-table";
import styles from "./incident.module.css";
import {
  cutSeries,
  LENGTHS,
  localInput,
  rangeOf,
  searchRange,
  shifted,
  type Span,
  spanOf,
  windowFor,
} from "./time-range";

const text = words.incident;

/** What happened in one stretch of time and what had changed: the page to share during and after an incident. */
export default function IncidentPage() {
  const [params, setParams] = useSearchParams();
  const [opened] = useState(() => Date.now());
  const span = spanOf(params.get("from") ?? "", params.get("to") ?? "", opened);
  const choose = (next: Span) => setParams(rangeOf(next) as unknown as Record<string, string>);
  return (
    <Page title={text.title} subtitle={text.about} actions={<ShareLink span={span} />}>
      <RangeFields span={span} now={opened} onChoose={choose} />
      <IncidentLinks span={span} />
      <IncidentChanges span={span} />
      <IncidentCharts span={span} now={opened} onChoose={choose} />
      <Panel title={text.deploys} flush>
        <DeployTable range={rangeOf(span)} />
      </Panel>
    </Page>
  );
}

function ShareLink({ span }: { span: Span }) {
  const toast = useToast();
  const { from, to } = rangeOf(span);
  const link = new URL(`incident?from=${from}&to=${to}`, root).href;
  return (
    <Button
      icon="link"
      onClick={() => void copyText(link).then(() => toast.show({ tone: "good", text: text.linkCopied }))}
    >
      {text.copyLink}
    </Button>
  );
}

interface RangeFieldsProps {
  span: Span;
  now: number;
  onChoose: (span: Span) => void;
}

function RangeFields({ span, now, onChoose }: RangeFieldsProps) {
  const set = (change: Partial<Span>) => {
    const next = { ...span, ...change };
    if (next.from < next.to) onChoose(next);
  };
  const typed = (change: (time: number) => void) => (event: React.ChangeEvent<HTMLInputElement>) => {
    const time = new Date(event.target.value).getTime();
    if (!Number.isNaN(time)) change(time);
  };
  return (
    <div className={styles.range}>
      <TextField
        label={text.from}
        type="datetime-local"
        value={localInput(span.from)}
        onChange={typed((from) => set({ from }))}
      />
      <TextField
        label={text.to}
        type="datetime-local"
        value={localInput(span.to)}
        onChange={typed((to) => set({ to }))}
      />
      <Button onClick={() => onChoose(shifted(span, -1))}>{text.shift.earlier}</Button>
      <Button onClick={() => onChoose(shifted(span, 1))}>{text.shift.later}</Button>
      {WINDOWS.map((window) => (
        <Button key={window} tone="quiet" onClick={() => onChoose({ from: now - LENGTHS[window], to: now })}>
          {text.last(words.windows[window])}
        </Button>
      ))}
    </div>
  );
}

function IncidentLinks({ span }: { span: Span }) {
  const range = searchRange(span);
  return (
    <p className={styles.links}>
      <Link href={jobsHref(`state:failed finished:${range}`)}>{text.failed}</Link>
      <Link href={jobsHref(`finished:${range}`)}>{text.ended}</Link>
      <Link href="/failures">{text.failures}</Link>
    </p>
  );
}

function useMarkers(span: Span): ChartMarker[] {
  const deploys = useQuery(systemQueries.deploys(rangeOf(span)));
  return deployMarkers(deploys.data?.items ?? []);
}

function IncidentCharts({ span, now, onChoose }: RangeFieldsProps) {
  const window = windowFor(span, now);
  const series = useQuery({ ...statsQueries.series({ window: window ?? "31d" }), enabled: window !== null });
  const markers = useMarkers(span);
  if (window === null) return <p>{text.tooOld}</p>;
  const shared = {
    sync: "incident",
    onRange: (from: number, to: number) => onChoose({ from: from * 1000, to: to * 1000 }),
  };
  return (
    <Panel title={words.overview.overTime}>
      <Loaded query={series} lines={8}>
        {(list) => {
          const cut = cutSeries(list, span);
          return (
            <div className={styles.charts}>
              <div className={styles.wide}>
                <Chart
                  title={text.throughput}
                  data={{ ...throughputOf(cut), markers }}
                  format={(value) => numberText(Math.round(value * 10) / 10)}
                  {...shared}
                />
              </div>
              <Chart title={text.wait} data={{ ...durationsOf(cut, "wait"), markers }} durations {...shared} />
              <Chart title={text.run} data={{ ...durationsOf(cut, "run"), markers }} durations {...shared} />
            </div>
          );
        }}
      </Loaded>
    </Panel>
  );
}

function IncidentChanges({ span }: { span: Span }) {
  const mayRead = useMayRead();
  const allowed = mayRead("audit:read");
  const changes = useQuery({ ...systemQueries.changes(rangeOf(span)), enabled: allowed });
  return (
    <Panel title={text.changes}>
      {allowed ? (
        <Loaded query={changes} lines={4}>
          {({ items, complete }) => (
            <>
              {!complete && <p className={styles.incomplete}>{text.incomplete}</p>}
              <ChangeList changes={items} />
            </>
          )}
        </Loaded>
      ) : (
        <p>{text.noAudit}</p>
      )}
    </Panel>
  );
}

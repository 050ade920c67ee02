import { useQuery } from "@tanstack/react-query";
import { useLocation } from "wouter";
import { statsQueries, type Window, WINDOWS } from "../../api/stats";
import { systemQueries } from "../../api/system";
import { useUrlChoice } from "../../hooks/use-url-state";
import { Chart } from "../../parts/chart";
import { deployMarkers } from "../../parts/chart-markers";
import { Panel } from "../../parts/page";
import { Loaded } from "../../parts/page-states";
import { Segments } from "../../parts/tabs";
import { words } from "../../words";
import { numberText } from "../../words/format";
import styles from "./overview.module.css";
import { durationsOf, throughputOf } from "./series-data";

const text = words.overview;
/** Milliseconds between two reads: a minute's step needs no more, a day's less. */
const EVERY: Record<Window, number> = { "1h": 15_000, "24h": 60_000, "7d": 300_000 };

const rateText = (perMinute: number) =>
  perMinute > 0 && perMinute < 9.95 ? perMinute.toFixed(1) : numberText(Math.round(perMinute));

/** Throughput and durations side by side, of one window that the address holds. A drag opens the incident view. */
export function OverviewCharts() {
  const [window, setWindow] = useUrlChoice("window", WINDOWS);
  const [, navigate] = useLocation();
  const series = useQuery({ ...statsQueries.series({ window }), refetchInterval: EVERY[window] });
  const openIncident = (from: number, to: number) => {
    const instant = (seconds: number) => new Date(seconds * 1000).toISOString();
    navigate(`/incident?from=${instant(from)}&to=${instant(to)}`);
  };
  const deploys = useQuery({ ...systemQueries.deploys({}), refetchInterval: 60_000 });
  const markers = deployMarkers(deploys.data?.items ?? []);
  const shared = { sync: "overview", onRange: openIncident };
  return (
    <Panel
      title={text.overTime}
      actions={
        <Segments
          label={text.window}
          choices={WINDOWS.map((name) => ({ name, label: words.windows[name] }))}
          chosen={window}
          onChoose={setWindow}
        />
      }
    >
      <Loaded query={series} lines={8}>
        {(list) => (
          <div className={styles.charts}>
            <div className={styles.wideChart}>
              <Chart title={text.throughput} data={{ ...throughputOf(list), markers }} format={rateText} {...shared} />
            </div>
            <Chart title={text.waitTimes} data={{ ...durationsOf(list, "wait"), markers }} durations {...shared} />
            <Chart title={text.runTimes} data={{ ...durationsOf(list, "run"), markers }} durations {...shared} />
          </div>
        )}
      </Loaded>
    </Panel>
  );
}

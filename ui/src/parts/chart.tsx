import { lazy, Suspense, useState } from "react";
import { words } from "../words";
import { clockText, durationText, numberText } from "../words/format";
import { useNow } from "../hooks/use-now";
import { Button } from "./button";
import { markersIn } from "./chart-markers";
import styles from "./chart.module.css";

/** One line or area. tone: a colour of tokens.css. */
export interface ChartSeries {
  label: string;
  tone: string;
  values: readonly (number | null)[];
  /** Filled down to zero. */
  area?: boolean;
  dashed?: boolean;
}

export interface ChartMarker {
  /** Seconds since 1970. */
  at: number;
  label: string;
}

export interface ChartData {
  /** Seconds since 1970. */
  times: readonly number[];
  series: readonly ChartSeries[];
  markers?: readonly ChartMarker[];
}

export interface ChartProps {
  title: string;
  data: ChartData;
  /** How a value is written at the axis and in the legend. */
  format?: (value: number) => string;
  /** The values are seconds. */
  durations?: boolean;
  height?: number;
  /** A stretch of time chosen by dragging, in seconds since 1970. */
  onRange?: (from: number, to: number) => void;
  /** Charts with the same name share their cursor. */
  sync?: string;
}

const Plot = lazy(() => import("./chart-plot"));

/** Lines over time, drawn by uPlot, which loads with the first chart. The same numbers are there as a table. */
export function Chart(props: ChartProps) {
  const { title, data, durations, format = durations ? durationText : numberText, height = 180 } = props;
  const [asTable, setAsTable] = useState(false);
  const empty = data.series.every((series) => series.values.every((value) => !value));
  return (
    <figure className={styles.figure}>
      <figcaption className={styles.caption}>
        <h3>{title}</h3>
        <Button tone="quiet" className={styles.toggle} onClick={() => setAsTable(!asTable)}>
          {asTable ? words.chart.asChart : words.chart.asTable}
        </Button>
      </figcaption>
      {asTable ? (
        <DataTable title={title} data={data} format={format} />
      ) : (
        <div className={styles.plot} style={{ minHeight: height + 28 }} role="img" aria-label={title}>
          <Suspense fallback={null}>
            <Plot {...props} format={format} height={height} />
          </Suspense>
          {empty && <p className={styles.empty}>{words.chart.noData}</p>}
        </div>
      )}
    </figure>
  );
}

function DataTable({ title, data, format }: { title: string; data: ChartData; format: (value: number) => string }) {
  const now = useNow();
  return (
    // A scrolling region needs the focus to be scrolled by keyboard.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className={styles.scroll} tabIndex={0} role="region" aria-label={title}>
      <table className={styles.table}>
        <thead>
          <tr>
            <th scope="col">{words.chart.time}</th>
            {data.series.map((series) => (
              <th key={series.label} scope="col">
                {series.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {data.times
            .map((time, index) => (
              <tr key={time}>
                <th scope="row">
                  {clockText(new Date(time * 1000).toISOString(), now)}
                  {markersIn(data.markers ?? [], data.times, index).map(({ at, label }) => (
                    <span key={`${at} ${label}`} className={styles.marker}>
                      {label}
                    </span>
                  ))}
                </th>
                {data.series.map((series) => {
                  const value = series.values[index];
                  return (
                    <td key={series.label}>{value === null || value === undefined ? words.none : format(value)}</td>
                  );
                })}
              </tr>
            ))
            .reverse()}
        </tbody>
      </table>
    </div>
  );
}

import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { words } from "../words";
import type { ChartProps } from "./chart";
import { DURATION_STEPS } from "./chart-steps";
import styles from "./chart-plot.module.css";

type PlotProps = ChartProps & { format: (value: number) => string; height: number };

/** A token's colour as a canvas takes it; light-dark() is resolved by the browser. */
function colourOf(element: HTMLElement, token: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(--${token})`;
  element.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

function withAlpha(colour: string, alpha: number): string {
  return colour.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`);
}

const timeOfDay = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const dayOfMonth = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

/** Labels of an axis: the time of day, and the date below it where a day begins. */
function timeLabels(): (seconds: number) => string {
  let day = "";
  return (seconds) => {
    const date = new Date(seconds * 1000);
    const today = dayOfMonth.format(date);
    const label = today === day ? timeOfDay.format(date) : `${timeOfDay.format(date)}\n${today}`;
    day = today;
    return label;
  };
}

/** The width of an axis whose longest label is not cut. */
const roomFor = (labels: readonly string[] | null) =>
  Math.max(40, 18 + 6.2 * Math.max(0, ...(labels ?? []).map((label) => label.length)));

function optionsOf(element: HTMLElement, { data, format, height, sync, onRange, durations }: PlotProps): uPlot.Options {
  const line = colourOf(element, "line");
  const faint = colourOf(element, "ink-faint");
  const font = `11px ${getComputedStyle(element).fontFamily}`;
  const axis = { stroke: faint, font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 } };
  return {
    width: element.clientWidth || 600,
    height,
    legend: { live: true },
    cursor: {
      y: false,
      drag: { x: Boolean(onRange), y: false, setScale: false },
      ...(sync ? { sync: { key: sync } } : {}),
    },
    scales: { y: { range: (_, __, max) => [0, Math.max(1e-9, max) * 1.08 || 1] } },
    axes: [
      { ...axis, space: 70, values: (_, splits) => splits.map(timeLabels()) },
      {
        ...axis,
        size: (_, labels) => roomFor(labels),
        space: 34,
        ...(durations && { incrs: [...DURATION_STEPS] }),
        values: (_, splits) => splits.map(format),
      },
    ],
    series: [
      {
        label: words.chart.time,
        value: (_, time) => (time ? new Date(time * 1000).toLocaleString() : words.none),
      },
      ...data.series.map((series): uPlot.Series => {
        const stroke = colourOf(element, series.tone);
        return {
          label: series.label,
          stroke,
          width: 1.5,
          points: { show: false },
          ...(series.area ? { fill: withAlpha(stroke, 0.14) } : {}),
          ...(series.dashed ? { dash: [4, 3] } : {}),
          value: (_, value: number | null) => (value === null ? words.none : format(value)),
        };
      }),
    ],
    hooks: {
      // Values are those under the pointer: without one, the legend shows names only.
      setCursor: [(plot) => element.toggleAttribute("data-pointed", typeof plot.cursor.idx === "number")],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width < 4 || !onRange) return;
          onRange(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
      draw: [(plot) => drawMarkers(plot, data.markers ?? [], faint, font)],
    },
  };
}

function drawMarkers(plot: uPlot, markers: NonNullable<PlotProps["data"]["markers"]>, colour: string, font: string) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.fillStyle = colour;
  ctx.textAlign = "left"; // the axes leave theirs behind
  ctx.font = font.replace("11px", `${Math.round(11 * devicePixelRatio)}px`);
  ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const marker of markers) {
    const x = plot.valToPos(marker.at, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const width = ctx.measureText(marker.label).width;
    const fits = x + width + 8 < bbox.left + bbox.width;
    ctx.fillText(marker.label, fits ? x + 4 : x - width - 4, bbox.top + 12 * devicePixelRatio);
  }
  ctx.restore();
}

const columnsOf = ({ times, series }: PlotProps["data"]): uPlot.AlignedData =>
  [[...times], ...series.map((each) => [...each.values])] as uPlot.AlignedData;

/** The canvas of a chart. Redrawn from nothing when its series, the theme or the width change; else only its data. */
export default function ChartPlot(props: PlotProps) {
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  const shape = JSON.stringify([
    props.data.series.map(({ label, tone, area, dashed }) => [label, tone, area, dashed]),
    props.height,
    props.data.markers,
  ]);

  useEffect(() => {
    latest.current = props;
    plot.current?.setData(columnsOf(props.data));
  });

  useEffect(() => {
    const box = element.current;
    if (!box) return;
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(optionsOf(box, latest.current), columnsOf(latest.current.data), box);
    };
    draw();
    const sizes = new ResizeObserver(() =>
      plot.current?.setSize({ width: box.clientWidth, height: latest.current.height }),
    );
    sizes.observe(box);
    const themes = new MutationObserver(draw);
    themes.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", draw);
    return () => {
      sizes.disconnect();
      themes.disconnect();
      system.removeEventListener("change", draw);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);

  return <div ref={element} className={styles.plot} />;
}

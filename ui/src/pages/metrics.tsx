/** Charts of resources and of values that tasks report. Only charts on the screen are drawn. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { jobPath, query as queryOf, request } from "../api";
import { clock, count, measure } from "../format";
import { setQuery } from "../router";
import { useStore } from "../store";
import { colour, colours } from "../theme";
import type { JobDetail, Metrics, Point } from "../types";
import { Problem, useLoaded } from "../ui";

const REFRESH_MS = 5_000;
const SERIES_PER_CHART = 8;
const HEIGHT = 190;
const MIN_SPAN_S = 30;
const TITLES: Record<string, string> = { cpu: "CPU", memory: "Memory", gpu: "GPU" };

interface Series {
  task: string;
  points: Point[];
}

interface Group {
  title: string;
  unit: string;
  series: Series[];
}

export function MetricsPage({ job, query }: { job: JobDetail; query: URLSearchParams }) {
  const task = query.get("task") ?? "";
  const path = jobPath(job.namespace, job.name, `/metrics${queryOf({ task })}`);
  const { data, error, reload } = useLoaded((signal) => request<Metrics>(path, { signal }), [path]);
  const isRunning = job.finished === null;
  useEffect(() => {
    if (!isRunning) {
      reload();
      return undefined;
    }
    const timer = setInterval(() => document.hidden || reload(), REFRESH_MS);
    return () => clearInterval(timer);
  }, [isRunning, path]);
  const groups = useMemo(() => (data ? groupsOf(data) : []), [data]);
  const [text, setText] = useState(task);
  useEffect(() => setText(task), [task]);
  return (
    <>
      <div class="toolbar">
        <label class="field">
          Tasks{" "}
          <input
            type="text"
            placeholder="e.g. worker-0,worker-1"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
            onChange={(event) => setQuery({ task: event.currentTarget.value.replaceAll(" ", "") }, true)}
          />
        </label>
        {data?.usage.series.some((series) => job.roles.some((role) => role.name === series.task)) && (
          <span class="muted">CPU, memory and GPUs are means of each role: the job has {count(data.tasks ?? 0, "task")}.</span>
        )}
      </div>
      <Problem text={error} retry={reload} />
      {data && !data.usage.available && <p class="muted">CPU and memory are not available: {data.usage.reason}</p>}
      {data && groups.length === 0 && (
        <p>
          No values yet. Values that tasks print as <code>windlass progress 10/100 loss=0.5</code> are shown here.
        </p>
      )}
      {!data && !error && <p>Loading…</p>}
      <div class="groups">
        {groups.map((group) => (
          <section key={group.title} class={group.series.length > SERIES_PER_CHART ? "wide" : ""} aria-label={group.title}>
            <h2>
              {group.title}
              {group.unit && group.unit !== "bytes" && <span class="muted"> in {group.unit}</span>}
            </h2>
            <div class="charts">
              {chunks(group.series).map((series) => (
                <LazyChart key={series[0]!.task} title={group.title} unit={group.unit} series={series} />
              ))}
            </div>
          </section>
        ))}
      </div>
    </>
  );
}

function groupsOf(data: Metrics): Group[] {
  const groups = new Map<string, Group>();
  const add = (title: string, unit: string, series: Series) => {
    const group = groups.get(title) ?? { title, unit, series: [] };
    group.series.push(series);
    groups.set(title, group);
  };
  for (const { task, name, points } of data.values) add(name, "", { task, points });
  for (const { task, metric, unit, points } of data.usage.series) add(TITLES[metric] ?? metric, unit, { task, points });
  for (const group of groups.values()) {
    group.series.sort((first, second) => first.task.localeCompare(second.task, "en", { numeric: true }));
  }
  return [...groups.values()].map((group) => ({
    ...group,
    series: group.series.filter(({ points }) => points.length > 0),
  })).filter(({ series }) => series.length > 0);
}

function chunks(series: Series[]): Series[][] {
  const found: Series[][] = [];
  for (let first = 0; first < series.length; first += SERIES_PER_CHART) found.push(series.slice(first, first + SERIES_PER_CHART));
  return found;
}

function LazyChart(properties: { title: string; unit: string; series: Series[] }) {
  const element = useRef<HTMLElement>(null);
  const [isVisible, setVisible] = useState(false);
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => setVisible(entries.at(-1)!.isIntersecting), {
      rootMargin: "100px",
    });
    observer.observe(element.current!);
    return () => observer.disconnect();
  }, []);
  const { title, unit, series } = properties;
  const names = series.length === 1 ? series[0]!.task : `${series[0]!.task} … ${series.at(-1)!.task}`;
  const most = Math.max(...series.map(({ points }) => points.length));
  return (
    <figure class="chart" ref={element} data-drawn={isVisible} data-points={most} aria-label={`${title} of ${names}`}>
      <div class="plot" style={{ height: `${HEIGHT}px` }} aria-hidden="true">
        {isVisible && <Chart {...properties} />}
      </div>
      <figcaption>
        {series.map(({ task, points }, position) => (
          <span key={task} class="legend-item">
            <i class={`hue-${position} line-${position % 4}`} aria-hidden="true" />
            {task}: {measure(points.at(-1)![1], unit === "bytes" ? unit : "")}
          </span>
        ))}
      </figcaption>
    </figure>
  );
}

const DASHES = [[], [6, 3], [2, 2], [8, 2, 2, 2]];

function Chart({ unit, series }: { unit: string; series: Series[] }) {
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const palette = useStore(colours);
  const data = useMemo(() => tableOf(series), [series]);
  const names = series.map(({ task }) => task).join();
  useEffect(() => {
    const target = element.current!;
    const text = colour("--muted");
    const grid = { stroke: colour("--line"), width: 1 };
    const axis = { stroke: text, grid, ticks: grid, font: "11px system-ui, sans-serif", gap: 4 };
    const made = new uPlot(
      {
        width: target.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        cursor: { y: false },
        scales: {
          x: { range: xRange },
          y: { range: { min: { pad: 0.1, soft: 0, mode: 3 }, max: { pad: 0.1, soft: 0, mode: 3 } } },
        },
        axes: [
          { ...axis, values: (_, times) => times.map((time) => clock(time * 1000).slice(0, 8)) },
          { ...axis, size: 70, values: (_, values) => values.map((value) => measure(value, unit === "bytes" ? unit : "")) },
        ],
        series: [
          {},
          ...series.map((_, position) => ({
            stroke: colour(`--hue-${position % 8}`),
            width: 1.5,
            dash: DASHES[position % DASHES.length]!,
            spanGaps: true,
            points: { size: 4 },
          })),
        ],
      },
      data,
      target,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: target.clientWidth, height: HEIGHT }));
    observer.observe(target);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [names, unit, palette]);
  useEffect(() => plot.current?.setData(data), [data]);
  return <div ref={element} />;
}

/** Return the times of the data, and at least half a minute: uPlot would show a whole day for a single point. */
function xRange({ data: [times] }: uPlot): [number, number] {
  const last = times.at(-1) ?? 0;
  return [Math.min(times[0] ?? last, last - MIN_SPAN_S), last];
}

/** Return the table that uPlot draws: the times in seconds, and a column per series with gaps. */
function tableOf(series: Series[]): uPlot.AlignedData {
  const times = [...new Set(series.flatMap(({ points }) => points.map(([time]) => time)))].sort((a, b) => a - b);
  const rows = new Map(times.map((time, row) => [time, row]));
  const columns = series.map(({ points }) => {
    const column: (number | null)[] = new Array<number | null>(times.length).fill(null);
    for (const [time, value] of points) column[rows.get(time)!] = value;
    return column;
  });
  return [times.map((time) => time / 1000), ...columns];
}

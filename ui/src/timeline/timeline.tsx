/**
 * A lane per task and a bar per attempt. Only the visible lanes are in the document, and bars that are too narrow to be
 * told apart are merged, so that 10,000 tasks are as fast as ten.
 */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { count, dateTime, duration } from "../format";
import { Glyph } from "../status";
import { useStore } from "../store";
import { colour, colours } from "../theme";
import type { TimelineData } from "../types";
import { useNow, useWindow } from "../ui";
import {
  density,
  endOf,
  fullRange,
  isFailure,
  lanesOf,
  marksOf,
  moved,
  phasesOf,
  ticksOf,
  zoomed,
  type Bar,
  type Lane,
  type Mark,
  type Range,
} from "./model";

const ROW_HEIGHT = 22;
const LABEL_WIDTH = 150;
const MIN_MARK_PX = 4;
const ZOOM = 1.6;
const MAX_EVENTS = 300;

export interface Selected {
  lane: string;
  attempt: number;
  taskAttempt: number;
}

export function Timeline({
  data,
  isLive = false,
  selected,
  onSelect,
}: {
  data: TimelineData;
  /** Whether time goes on: bars without an end grow. */
  isLive?: boolean;
  selected?: Selected | null;
  onSelect?: (bar: Bar | null) => void;
}) {
  const received = useMemo(() => Date.now(), [data]);
  const tick = useNow(1000, isLive);
  const now = isLive ? data.now + Math.max(0, tick - received) : data.end;
  const [wanted, setWanted] = useState<Range | null>(null);
  const [text, setText] = useState("");
  const [hasFailedOnly, setFailedOnly] = useState(false);
  const [cursor, setCursor] = useState({ lane: 0, bar: 0 });
  const scroller = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(800);

  const all = useMemo(() => lanesOf(data), [data]);
  const failedCount = useMemo(() => all.filter((lane) => lane.bars.some(isFailure)).length, [all]);
  const lanes = useMemo(
    () => all.filter((lane) => lane.name.includes(text) && (!hasFailedOnly || lane.bars.some(isFailure))),
    [all, text, hasFailedOnly],
  );
  const limits = fullRange(data, isLive ? now : data.end);
  const range = wanted ?? limits;
  const visible = useWindow(scroller, ROW_HEIGHT, lanes.length);
  const zoom = (factor: number, around = (range.from + range.to) / 2) => {
    const next = zoomed(range, factor, around, limits);
    setWanted(next.to - next.from >= limits.to - limits.from - 1 ? null : next);
  };
  const pan = (share: number) => setWanted(moved(range, share * (range.to - range.from), limits));

  useEffect(() => {
    const element = scroller.current!;
    const observer = new ResizeObserver(() => setWidth(Math.max(100, element.clientWidth - LABEL_WIDTH)));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  // Zooming with the wheel must not scroll the page, so the listener cannot be passive.
  useEffect(() => {
    const element = scroller.current!;
    const onWheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const share = (event.clientX - element.getBoundingClientRect().left - LABEL_WIDTH) / width;
      zoom(event.deltaY < 0 ? ZOOM : 1 / ZOOM, range.from + Math.min(1, Math.max(0, share)) * (range.to - range.from));
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  });

  const current = lanes[Math.min(cursor.lane, lanes.length - 1)];
  const currentBar = current?.bars[Math.min(cursor.bar, current.bars.length - 1)];
  const moveTo = (lane: number, bar: (lane: Lane) => number) => {
    const target = Math.min(Math.max(lane, 0), lanes.length - 1);
    const found = lanes[target];
    if (!found) return;
    setCursor({ lane: target, bar: Math.min(Math.max(bar(found), 0), found.bars.length - 1) });
    const element = scroller.current!;
    const top = target * ROW_HEIGHT;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + ROW_HEIGHT > element.scrollTop + element.clientHeight) {
      element.scrollTop = top + ROW_HEIGHT - element.clientHeight;
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const page = Math.max(1, Math.floor((scroller.current!.clientHeight || ROW_HEIGHT) / ROW_HEIGHT) - 1);
    const lane = Math.min(cursor.lane, lanes.length - 1);
    const keep = () => cursor.bar;
    const actions: Record<string, () => void> = {
      ArrowDown: () => moveTo(lane + 1, keep),
      ArrowUp: () => moveTo(lane - 1, keep),
      PageDown: () => moveTo(lane + page, keep),
      PageUp: () => moveTo(lane - page, keep),
      Home: () => moveTo(0, keep),
      End: () => moveTo(lanes.length - 1, keep),
      ArrowRight: () => (event.shiftKey ? pan(0.25) : moveTo(lane, () => cursor.bar + 1)),
      ArrowLeft: () => (event.shiftKey ? pan(-0.25) : moveTo(lane, () => cursor.bar - 1)),
      "+": () => zoom(ZOOM),
      "=": () => zoom(ZOOM),
      "-": () => zoom(1 / ZOOM),
      "0": () => setWanted(null),
      Enter: () => currentBar && onSelect?.(currentBar),
      Escape: () => onSelect?.(null),
    };
    const action = actions[event.key];
    if (!action) return;
    action();
    event.preventDefault();
  };

  const shown = lanes.slice(visible.first, visible.last);
  const isCursorShown =
    current !== undefined &&
    currentBar !== undefined &&
    shown.includes(current) &&
    currentBar.created <= range.to &&
    endOf(currentBar, now) >= range.from;
  return (
    <div class="timeline" style={{ "--label-width": `${LABEL_WIDTH}px` }}>
      <div class="toolbar">
        <label class="field">
          Tasks <input type="search" value={text} placeholder="e.g. worker-1" onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        {failedCount > 0 && (
          <label class="field">
            <input type="checkbox" checked={hasFailedOnly} onChange={(event) => setFailedOnly(event.currentTarget.checked)} /> Only
            tasks with a failed attempt ({failedCount})
          </label>
        )}
        <span class="spacer" />
        <Legend />
        <span class="group">
          <button type="button" aria-label="Zoom in" title="Zoom in (+)" onClick={() => zoom(ZOOM)}>
            +
          </button>
          <button type="button" aria-label="Zoom out" title="Zoom out (−)" disabled={wanted === null} onClick={() => zoom(1 / ZOOM)}>
            −
          </button>
          <button type="button" title="Show all (0)" disabled={wanted === null} onClick={() => setWanted(null)}>
            All
          </button>
        </span>
      </div>
      <Overview lanes={all} limits={limits} range={range} now={now} onRange={setWanted} />
      <Axis data={data} range={range} now={now} width={width} />
      <div
        class="lanes"
        ref={scroller}
        role="grid"
        tabIndex={0}
        aria-label={`Attempts of ${count(lanes.length, "task")}`}
        aria-rowcount={lanes.length}
        aria-activedescendant={isCursorShown ? idOf(currentBar!) : undefined}
        onKeyDown={onKeyDown}
      >
        <div class="space" role="presentation" style={{ height: `${lanes.length * ROW_HEIGHT}px` }}>
          <Bands data={data} range={range} now={now} />
          {shown.map((lane, offset) => {
            const position = visible.first + offset;
            return (
              <LaneRow
                key={lane.name}
                lane={lane}
                position={position}
                range={range}
                now={now}
                width={width}
                cursorBar={lane === current ? (currentBar ?? null) : null}
                selected={selected?.lane === lane.name ? selected : null}
                onPick={(bar) => {
                  setCursor({ lane: position, bar: lane.bars.indexOf(bar) });
                  onSelect?.(bar);
                }}
              />
            );
          })}
        </div>
      </div>
      {lanes.length === 0 && <p class="muted">{all.length === 0 ? "No task was created yet." : "No task matches."}</p>}
      {data.truncated ? (
        <p class="muted">{count(data.truncated, "older attempt")} not shown.</p>
      ) : null}
    </div>
  );
}

function idOf(bar: Bar): string {
  return `bar-${bar.role}-${bar.index}-${bar.attempt}-${bar.taskAttempt}`;
}

function LaneRow({
  lane,
  position,
  range,
  now,
  width,
  cursorBar,
  selected,
  onPick,
}: {
  lane: Lane;
  position: number;
  range: Range;
  now: number;
  width: number;
  cursorBar: Bar | null;
  selected: Selected | null;
  onPick: (bar: Bar) => void;
}) {
  const marks = marksOf(lane.bars, range, now, MIN_MARK_PX / width);
  const last = lane.bars.at(-1);
  return (
    <div
      role="row"
      class={cursorBar ? "lane cursor" : "lane"}
      aria-rowindex={position + 1}
      style={{ top: `${position * ROW_HEIGHT}px` }}
    >
      <span role="rowheader" class="label">
        {last && <Glyph state={last.outcome} />}
        <span class="name">{lane.name}</span>
        {lane.bars.length > 1 && <span class="muted small">×{lane.bars.length}</span>}
      </span>
      <span class="bars" role="presentation">
        {marks.map((mark) => (
          <MarkView
            key={idOf(mark.first)}
            mark={mark}
            range={range}
            now={now}
            width={width}
            isCursor={cursorBar !== null && contains(mark, cursorBar)}
            isSelected={selected !== null && isSelectedIn(mark, selected)}
            cursorId={cursorBar !== null && contains(mark, cursorBar) ? idOf(cursorBar) : undefined}
            onPick={onPick}
          />
        ))}
      </span>
    </div>
  );
}

function contains(mark: Mark, bar: Bar): boolean {
  return bar.created >= mark.first.created && bar.created <= mark.last.created;
}

function isSelectedIn(mark: Mark, { attempt, taskAttempt }: Selected): boolean {
  const isAfterFirst = attempt > mark.first.attempt || (attempt === mark.first.attempt && taskAttempt >= mark.first.taskAttempt);
  const isBeforeLast = attempt < mark.last.attempt || (attempt === mark.last.attempt && taskAttempt <= mark.last.taskAttempt);
  return isAfterFirst && isBeforeLast;
}

function MarkView({
  mark,
  range,
  now,
  width,
  isCursor,
  isSelected,
  cursorId,
  onPick,
}: {
  mark: Mark;
  range: Range;
  now: number;
  width: number;
  isCursor: boolean;
  isSelected: boolean;
  cursorId: string | undefined;
  onPick: (bar: Bar) => void;
}) {
  const description = mark.count === 1 ? describe(mark.first, now) : `${mark.count} attempts, last: ${describe(mark.last, now)}`;
  const classes = ["bar", `outcome-${mark.outcome}`, isCursor ? "cursor" : "", isSelected ? "selected" : ""];
  const pixels = mark.width * width;
  return (
    <span
      role="gridcell"
      id={cursorId ?? idOf(mark.last)}
      class={classes.join(" ")}
      aria-label={description}
      aria-selected={isSelected}
      title={description}
      style={{ left: `${mark.left * 100}%`, width: `${mark.width * 100}%` }}
      onClick={() => onPick(mark.last)}
    >
      {mark.count === 1 && pixels > MIN_MARK_PX ? (
        phasesOf(mark.first, now).map((phase) => {
          const from = Math.max(phase.from, range.from);
          const to = Math.min(phase.to, range.to);
          if (to <= from) return null;
          return <i key={phase.from} class={`phase-${phase.name}`} style={{ flexGrow: to - from }} />;
        })
      ) : (
        <i class="phase-several" />
      )}
      {pixels > 20 && mark.outcome !== "running" && mark.outcome !== "pending" && <Glyph state={mark.outcome} />}
    </span>
  );
}

function describe(bar: Bar, now: number): string {
  const parts = [`${bar.role}-${bar.index}, attempt ${bar.taskAttempt}`];
  if (bar.attempt > 0) parts.push(`job attempt ${bar.attempt}`);
  parts.push(bar.outcome);
  if (bar.exitCode !== null) parts.push(`exit code ${bar.exitCode}`);
  if (bar.failureClass) parts.push(bar.failureClass);
  parts.push(duration((endOf(bar, now) - bar.created) / 1000));
  const pulling = phasesOf(bar, now).find((phase) => phase.name === "pulling");
  if (pulling) parts.push(`pulled images for ${duration((pulling.to - pulling.from) / 1000)}`);
  if (bar.node) parts.push(`on ${bar.node}`);
  return parts.join(", ");
}

// What is behind and above the lanes

function Bands({ data, range, now }: { data: TimelineData; range: Range; now: number }) {
  const span = range.to - range.from;
  return (
    <span class="bands" aria-hidden="true">
      {data.jobAttempts.map(({ attempt, started, finished }, position) => {
        const from = Math.max(started ?? data.start, range.from);
        const to = Math.min(finished ?? now, range.to);
        if (to <= from) return null;
        const style = { left: `${((from - range.from) / span) * 100}%`, width: `${((to - from) / span) * 100}%` };
        return <i key={attempt} class={position % 2 ? "band odd" : "band"} style={style} />;
      })}
    </span>
  );
}

function offset(ms: number): string {
  return ms % 1000 === 0 ? duration(ms / 1000) : `${(ms / 1000).toFixed(1)} s`;
}

function Axis({ data, range, now, width }: { data: TimelineData; range: Range; now: number; width: number }) {
  const span = range.to - range.from;
  const place = (time: number) => `${((time - range.from) / span) * 100}%`;
  const events = data.events.filter(({ time }) => time >= range.from && time <= range.to).slice(-MAX_EVENTS);
  const attempts = data.jobAttempts.length > 1 ? data.jobAttempts : [];
  return (
    <div class="axis">
      <div class="attempts">
        {attempts.map(({ attempt, started, finished, outcome, reason }) => {
          const from = Math.max(started ?? data.start, range.from);
          const to = Math.min(finished ?? now, range.to);
          if (to <= from) return null;
          return (
            <span
              key={attempt}
              class="attempt"
              title={`Job attempt ${attempt}: ${outcome}. ${reason}`}
              style={{ left: place(from), width: `${((to - from) / span) * 100}%` }}
            >
              attempt {attempt}: {outcome}
            </span>
          );
        })}
      </div>
      <div class="ticks">
        {ticksOf(range, data.start, Math.max(2, width / 90)).map((time) => (
          <span key={time} style={{ left: place(time) }} title={dateTime(time)}>
            +{offset(time - data.start)}
          </span>
        ))}
      </div>
      <div class="events">
        {events.map(({ time, reason, message, object, type }, position) => (
          <span
            key={position}
            class={type === "Warning" ? "event warning" : "event"}
            style={{ left: place(time) }}
            title={`${dateTime(time)} ${reason} (${object}): ${message}`}
          />
        ))}
      </div>
    </div>
  );
}

/** The numbers of pending and running tasks over the whole time. Dragging selects the visible range. */
function Overview({
  lanes,
  limits,
  range,
  now,
  onRange,
}: {
  lanes: Lane[];
  limits: Range;
  range: Range;
  now: number;
  onRange: (range: Range | null) => void;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const drag = useRef<number | null>(null);
  const palette = useStore(colours);
  useEffect(() => {
    const element = canvas.current!;
    const scale = devicePixelRatio || 1;
    const columns = Math.max(50, element.clientWidth);
    const height = element.clientHeight;
    element.width = columns * scale;
    element.height = height * scale;
    const context = element.getContext("2d");
    if (!context) return;
    context.scale(scale, scale);
    const found = density(lanes, limits, now, columns);
    const most = Math.max(1, ...sums(found.pending, found.running));
    context.globalAlpha = 0.6;
    const heightOf = (number: number | undefined) => ((number ?? 0) / most) * (height - 4);
    context.fillStyle = colour("--busy");
    for (let column = 0; column < columns; column++) {
      const running = heightOf(found.running[column]);
      if (running > 0) context.fillRect(column, height - running, 1, running);
    }
    context.fillStyle = colour("--waiting");
    for (let column = 0; column < columns; column++) {
      const pending = heightOf(found.pending[column]);
      if (pending > 0) context.fillRect(column, height - heightOf(found.running[column]) - pending, 1, pending);
    }
    context.fillStyle = colour("--bad");
    for (let column = 0; column < columns; column++) if (found.failed[column]) context.fillRect(column - 1, 0, 3, 4);
  }, [lanes, limits.from, limits.to, palette]);
  const timeAt = (event: PointerEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    return limits.from + share * (limits.to - limits.from);
  };
  const span = limits.to - limits.from;
  const isWhole = range.to - range.from >= span - 1;
  return (
    <div
      class="overview"
      aria-hidden="true"
      title="Pending and running tasks. Drag to select a period."
      onPointerDown={(event) => {
        drag.current = timeAt(event);
        event.currentTarget.setPointerCapture(event.pointerId);
      }}
      onPointerMove={(event) => {
        if (drag.current === null) return;
        const time = timeAt(event);
        const next = { from: Math.min(time, drag.current), to: Math.max(time, drag.current) };
        if (next.to - next.from > span / 200) onRange(next);
      }}
      onPointerUp={() => {
        drag.current = null;
      }}
    >
      <canvas ref={canvas} />
      {!isWhole && (
        <i
          class="brush"
          style={{
            left: `${((range.from - limits.from) / span) * 100}%`,
            width: `${((range.to - range.from) / span) * 100}%`,
          }}
        />
      )}
    </div>
  );
}

function* sums(first: Float64Array, second: Float64Array): Generator<number> {
  for (let index = 0; index < first.length; index++) yield first[index]! + second[index]!;
}

function Legend() {
  const phases = ["pending", "pulling", "preparing", "running", "ending"];
  return (
    <span class="legend">
      {phases.map((name) => (
        <span key={name}>
          <span class="bar outcome-running" aria-hidden="true">
            <i class={`phase-${name}`} />
          </span>
          {name}
        </span>
      ))}
    </span>
  );
}

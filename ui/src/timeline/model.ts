/** Lanes, bars and phases of a timeline, without drawing. Times are milliseconds since 1970. */

import type { Cell, Outcome, TimelineData } from "../types";

export interface Bar {
  role: string;
  index: number;
  attempt: number;
  taskAttempt: number;
  node: string;
  created: number;
  scheduled: number | null;
  pulling: number | null;
  pulled: number | null;
  started: number | null;
  ending: number | null;
  finished: number | null;
  outcome: Outcome;
  exitCode: number | null;
  failureClass: string;
}

export interface Lane {
  name: string;
  role: string;
  index: number;
  bars: Bar[];
}

export interface Range {
  from: number;
  to: number;
}

export type PhaseName = "pending" | "pulling" | "preparing" | "running" | "ending";

export interface Phase {
  name: PhaseName;
  from: number;
  to: number;
}

type Columns = [number, number, number, number, number];

/** Return one lane per task, ordered by role (in the order of the job) and index. */
export function lanesOf(data: TimelineData): Lane[] {
  const column = (name: string) => data.columns.indexOf(name);
  const text = (row: Cell[], at: number) => String(row[at] ?? "");
  const number = (row: Cell[], at: number) => {
    const value = row[at];
    return typeof value === "number" ? value : null;
  };
  const [role, index, attempt, taskAttempt, node] = ["role", "index", "attempt", "taskAttempt", "node"].map(column) as Columns;
  const [created, scheduled, pulling, pulled, started] = ["created", "scheduled", "pulling", "pulled", "started"].map(column) as Columns;
  const [ending, finished, outcome, exitCode, failureClass] = ["ending", "finished", "outcome", "exitCode", "class"].map(column) as Columns;
  const lanes = new Map<string, Lane>();
  const roles: string[] = [];
  for (const row of data.bars) {
    const bar: Bar = {
      role: text(row, role),
      index: number(row, index) ?? 0,
      attempt: number(row, attempt) ?? 0,
      taskAttempt: number(row, taskAttempt) ?? 0,
      node: text(row, node),
      created: number(row, created) ?? number(row, started) ?? data.start,
      scheduled: number(row, scheduled),
      pulling: number(row, pulling),
      pulled: number(row, pulled),
      started: number(row, started),
      ending: number(row, ending),
      finished: number(row, finished),
      outcome: text(row, outcome) as Outcome,
      exitCode: number(row, exitCode),
      failureClass: text(row, failureClass),
    };
    const name = `${bar.role}-${bar.index}`;
    const lane = lanes.get(name);
    if (lane) {
      lane.bars.push(bar);
      continue;
    }
    if (roles.at(-1) !== bar.role && !roles.includes(bar.role)) roles.push(bar.role);
    lanes.set(name, { name, role: bar.role, index: bar.index, bars: [bar] });
  }
  const order = new Map(roles.map((role, position) => [role, position]));
  const sorted = [...lanes.values()].sort(
    (first, second) => order.get(first.role)! - order.get(second.role)! || first.index - second.index,
  );
  for (const { bars } of sorted) if (bars.length > 1) bars.sort((first, second) => first.created - second.created);
  return sorted;
}

export function endOf(bar: Bar, now: number): number {
  return Math.max(bar.finished ?? now, bar.created);
}

/** Return the phases of an attempt in order. A boundary that is unknown or too early leaves out its phase. */
export function phasesOf(bar: Bar, now: number): Phase[] {
  const end = endOf(bar, now);
  const phases: Phase[] = [];
  let from = bar.created;
  const until = (name: PhaseName, to: number | null) => {
    if (to === null) return;
    const limited = Math.min(Math.max(to, from), end);
    if (limited > from) phases.push({ name, from, to: limited });
    from = limited;
  };
  until("pending", bar.scheduled ?? bar.pulling ?? bar.started ?? end);
  if (bar.pulling !== null) {
    until("preparing", bar.pulling);
    until("pulling", bar.pulled ?? bar.started ?? end);
  }
  until("preparing", bar.started ?? end);
  until("running", bar.ending ?? end);
  until("ending", end);
  return phases;
}

export function isFailure(bar: Bar): boolean {
  return bar.outcome === "failed" || bar.outcome === "lost";
}

/** A bar, or several that are too narrow to draw apart. Positions are fractions of the visible range. */
export interface Mark {
  left: number;
  width: number;
  first: Bar;
  last: Bar;
  count: number;
  /** The outcome to show: a failure among several wins. */
  outcome: Outcome;
}

/** Return what to draw of a lane. Bars of less than `minimum` (a fraction) are merged with those next to them. */
export function marksOf(bars: Bar[], range: Range, now: number, minimum: number): Mark[] {
  const span = Math.max(1, range.to - range.from);
  const marks: Mark[] = [];
  for (const bar of bars) {
    const end = endOf(bar, now);
    if (end < range.from || bar.created > range.to) continue;
    const left = (Math.max(bar.created, range.from) - range.from) / span;
    const width = Math.max((Math.min(end, range.to) - range.from) / span - left, 0);
    const previous = marks.at(-1);
    const isTooNarrow = width < minimum && previous !== undefined && previous.width < minimum * 3;
    if (previous && isTooNarrow && left - (previous.left + previous.width) < minimum / 2) {
      previous.width = left + width - previous.left;
      previous.last = bar;
      previous.count += 1;
      if (isFailure(bar)) previous.outcome = bar.outcome;
    } else {
      marks.push({ left, width, first: bar, last: bar, count: 1, outcome: bar.outcome });
    }
  }
  return marks;
}

/** Return the whole range of a timeline, at least a second. */
export function fullRange(data: TimelineData, end: number): Range {
  return { from: data.start, to: Math.max(end, data.start + 1000) };
}

/** Zoom around a time, within the limits. */
export function zoomed(range: Range, factor: number, around: number, limits: Range): Range {
  const span = Math.min(Math.max((range.to - range.from) / factor, 100), limits.to - limits.from);
  const share = (around - range.from) / (range.to - range.from);
  return moved({ from: around - share * span, to: around + (1 - share) * span }, 0, limits);
}

/** Move a range by milliseconds, within the limits. */
export function moved(range: Range, by: number, limits: Range): Range {
  const span = range.to - range.from;
  const from = Math.min(Math.max(range.from + by, limits.from), Math.max(limits.from, limits.to - span));
  return { from, to: from + span };
}

const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400].map(
  (seconds) => seconds * 1000,
);

/** Return the times of at most `limit` labels, at round distances from the start. */
export function ticksOf(range: Range, start: number, limit: number): number[] {
  const span = range.to - range.from;
  const step = STEPS.find((each) => span / each <= limit) ?? Math.ceil(span / limit / 86_400_000) * 86_400_000;
  const ticks: number[] = [];
  for (let time = start + Math.ceil((range.from - start) / step) * step; time <= range.to; time += step) ticks.push(time);
  return ticks;
}

/** Return the numbers of pending, running and failed tasks at each of `columns` moments of the range. */
export function density(lanes: Lane[], range: Range, now: number, columns: number): Record<"pending" | "running" | "failed", Float64Array> {
  const found = {
    pending: new Float64Array(columns + 1),
    running: new Float64Array(columns + 1),
    failed: new Float64Array(columns + 1),
  };
  const scale = columns / Math.max(1, range.to - range.from);
  const at = (time: number) => Math.min(columns, Math.max(0, Math.floor((time - range.from) * scale)));
  for (const lane of lanes) {
    for (const bar of lane.bars) {
      const end = endOf(bar, now);
      const started = bar.started ?? end;
      found.pending[at(bar.created)]! += 1;
      found.pending[at(started)]! -= 1;
      if (bar.started !== null) {
        found.running[at(started)]! += 1;
        found.running[at(end)]! -= 1;
      }
      if (isFailure(bar)) found.failed[at(end)]! += 1;
    }
  }
  for (const series of [found.pending, found.running]) {
    for (let column = 1; column <= columns; column++) series[column]! += series[column - 1]!;
  }
  return found;
}

/** The loaded lines of logs: the newest ones, up to a limit. */

import { visible } from "./format";
import type { LogLine, LogMatch } from "./types";

export const MAX_LINES = 50_000;
/** Longer lines are cut where they are shown. */
export const MAX_SHOWN = 2_000;
/** No more is kept of a line. */
const MAX_KEPT = 1_000_000;

/** `key` is the time, in a form that sorts as text does. */
export type Entry = { key: string } & ({ kind: "line"; line: LogLine; shown: string } | { kind: "gap"; text: string });
export type Received = LogLine | { gap: string };

/** Lines of several tasks, by time: the server sends the last lines of one task after the other. */
export class LogBuffer {
  entries: Entry[] = [];
  dropped = 0;
  /** The unfinished line of each task: long lines come in pieces. */
  private readonly unfinished = new Map<string, Entry & { kind: "line" }>();

  add(received: Received[]): void {
    const before = this.entries.length;
    for (const each of received) {
      if ("gap" in each) this.entries.push({ kind: "gap", key: this.entries.at(-1)?.key ?? "", text: each.gap });
      else this.addLine(each);
    }
    this.sortFrom(before);
    const excess = this.entries.length - MAX_LINES;
    // Drop more than necessary, so that not every line moves all others.
    if (excess > 0) {
      const removed = excess + MAX_LINES / 10;
      this.entries = this.entries.slice(removed);
      this.dropped += removed;
    }
  }

  private addLine(line: LogLine): void {
    let entry = this.unfinished.get(line.task);
    if (entry) {
      if (entry.line.text.length < MAX_KEPT) entry.line.text += line.text;
      entry.shown = shorten(entry.line.text);
    } else {
      // Fractions of seconds have different numbers of digits.
      const key = line.time?.replace("Z", "") ?? this.entries.at(-1)?.key ?? "";
      entry = { kind: "line", key, line, shown: shorten(line.text) };
      this.entries.push(entry);
    }
    if (line.more) this.unfinished.set(line.task, entry);
    else this.unfinished.delete(line.task);
  }

  /** Sort the entries from `start` into the others, which are sorted. Those of the same time keep their order. */
  private sortFrom(start: number): void {
    let least = this.entries[start]?.key;
    if (least === undefined) return;
    for (const { key } of this.entries.slice(start)) if (key < least) least = key;
    let first = 0;
    for (let end = start; first < end; ) {
      const middle = (first + end) >> 1;
      if (this.entries[middle]!.key <= least) first = middle + 1;
      else end = middle;
    }
    const moved = this.entries.slice(first).sort((one, other) => (one.key < other.key ? -1 : one.key > other.key ? 1 : 0));
    this.entries = this.entries.slice(0, first).concat(moved);
  }

  /** Return the position of a match, or -1. */
  find(match: LogMatch): number {
    return this.entries.findIndex(
      (entry) =>
        entry.kind === "line" &&
        entry.line.task === match.task &&
        entry.line.time === match.time &&
        entry.line.text === match.text,
    );
  }
}

function shorten(text: string): string {
  const shown = visible(text.slice(0, MAX_SHOWN));
  return text.length > MAX_SHOWN ? `${shown} … ${(text.length - MAX_SHOWN).toLocaleString("en")} more characters` : shown;
}

/** Return the parts of a text, alternately without and with a match. */
export function splitMatches(text: string, pattern: RegExp | null): string[] {
  if (!pattern) return [text];
  const parts: string[] = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    if (match[0] === "") continue;
    parts.push(text.slice(end, match.index), match[0]);
    end = match.index + match[0].length;
  }
  parts.push(text.slice(end));
  return parts;
}

/** Return the pattern to highlight; null if there is none, or if only the server understands it. */
export function highlight(query: string, isRegex: boolean): RegExp | null {
  if (query === "") return null;
  try {
    return new RegExp(isRegex ? query : query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), isRegex ? "g" : "gi");
  } catch {
    return null;
  }
}

/** The loaded lines of logs: the newest ones, up to a limit. */

import { visible } from "./format";
import type { LogLine, LogMatch } from "./types";

export const MAX_LINES = 50_000;
/** Longer lines are cut where they are shown. */
export const MAX_SHOWN = 2_000;
/** No more is kept of a line. */
const MAX_KEPT = 1_000_000;

export type Entry = { kind: "line"; line: LogLine; shown: string } | { kind: "gap"; text: string };
export type Received = LogLine | { gap: string };

export class LogBuffer {
  entries: Entry[] = [];
  dropped = 0;
  /** The unfinished line of each task: long lines come in pieces. */
  private readonly unfinished = new Map<string, Entry & { kind: "line" }>();

  add(received: Received[]): void {
    for (const each of received) {
      if ("gap" in each) this.entries.push({ kind: "gap", text: each.gap });
      else this.addLine(each);
    }
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
      entry = { kind: "line", line, shown: shorten(line.text) };
      this.entries.push(entry);
    }
    if (line.more) this.unfinished.set(line.task, entry);
    else this.unfinished.delete(line.task);
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

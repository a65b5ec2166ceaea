/** Numbers, times and untrusted text for people. */

import type { JobRow } from "./types";

const SECONDS = { d: 86_400, h: 3_600, min: 60, s: 1 } as const;

/** Return the two largest units of a duration, e.g. `3 min 20 s`. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds > 0 && seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  let rest = Math.max(0, Math.round(seconds));
  const parts: string[] = [];
  for (const [unit, size] of Object.entries(SECONDS)) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) parts.push(`${count} ${unit}`);
    else if (parts.length > 0) break;
  }
  return parts.slice(0, 2).join(" ") || "0 s";
}

export function milliseconds(time: string | null | undefined): number | null {
  if (!time) return null;
  const parsed = Date.parse(time);
  return Number.isNaN(parsed) ? null : parsed;
}

export function age(time: string | null, now: number): string {
  const since = milliseconds(time);
  return since === null ? "–" : duration((now - since) / 1000);
}

/** Return the seconds from the start of a job until its end or now. */
export function durationOf(job: JobRow, now: number): number | null {
  const started = milliseconds(job.started);
  if (job.finished === null && started !== null) return Math.max(0, (now - started) / 1000);
  return job.durationSeconds;
}

export function dateTime(time: string | number | null | undefined): string {
  const value = typeof time === "number" ? time : milliseconds(time);
  if (value === null) return "–";
  const date = new Date(value);
  const pad = (number: number, width = 2) => String(number).padStart(width, "0");
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${clock(value)}`;
}

export function clock(time: string | number | null): string {
  const value = typeof time === "number" ? time : milliseconds(time);
  if (value === null) return "--:--:--.---";
  const date = new Date(value);
  const pad = (number: number, width = 2) => String(number).padStart(width, "0");
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}.${pad(date.getMilliseconds(), 3)}`;
}

export function bytes(count: number): string {
  let value = count;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (value < 1024) return `${unit === "B" ? value : value.toPrecision(3)} ${unit}`;
    value /= 1024;
  }
  return `${value.toPrecision(3)} TiB`;
}

/** Return a value of a metric, e.g. `1.25` or `512 MiB`. */
export function measure(value: number, unit: string): string {
  if (unit === "bytes" || unit === "B") return bytes(Math.round(value));
  const number = Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(3)));
  return unit ? `${number} ${unit}` : number;
}

export function count(number: number, singular: string, plural = `${singular}s`): string {
  return `${number.toLocaleString("en")} ${number === 1 ? singular : plural}`;
}

const ANSI = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;
// Control characters, and characters that reverse or hide the text after them.
const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Return one line of untrusted text without terminal sequences, and with invisible characters as `<U+202E>`. */
export function visible(text: string): string {
  return text
    .replace(ANSI, "")
    .replace(/\r$/, "")
    .replace(UNSAFE, (character) => `<U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);
}

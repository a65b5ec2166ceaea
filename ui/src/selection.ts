/** Filter, sort and page jobs as `GET /api/v1/jobs` does. */

import { durationOf, milliseconds } from "./format";
import type { JobRow, JobsPage } from "./types";

export interface Selection {
  text: string;
  states: string[];
  sort: string;
  page: number;
  size: number;
}

export const SORTS: [string, string][] = [
  ["created", "Age"],
  ["name", "Name"],
  ["state", "State"],
  ["duration", "Duration"],
];

const KEYS: Record<string, (job: JobRow) => string | number> = {
  created: (job) => milliseconds(job.created) ?? 0,
  name: (job) => job.name,
  state: (job) => job.state,
  duration: (job) => durationOf(job, Date.now()) ?? 0,
};

export function selectRows(jobs: Iterable<JobRow>, { text, states, sort, page, size }: Selection): JobsPage {
  const wanted = text.toLowerCase();
  const counts: Record<string, number> = {};
  const found: JobRow[] = [];
  for (const job of jobs) {
    const words = `${job.namespace}/${job.name}\n${job.verdict}\n${job.message}`.toLowerCase();
    if (!words.includes(wanted)) continue;
    counts[job.state] = (counts[job.state] ?? 0) + 1;
    if (states.length === 0 || states.includes(job.state)) found.push(job);
  }
  const isDescending = sort.startsWith("-");
  const key = KEYS[sort.replace(/^-/, "")] ?? KEYS["created"]!;
  const keyed = found.map((job) => ({ job, key: key(job), name: `${job.namespace}/${job.name}` }));
  keyed.sort((first, second) => {
    const order = first.key < second.key ? -1 : first.key > second.key ? 1 : 0;
    if (order !== 0) return isDescending ? -order : order;
    return first.name < second.name ? -1 : 1;
  });
  // Jobs may have been deleted since the page was chosen.
  const shown = Math.min(page, Math.max(1, Math.ceil(found.length / size)));
  const items = keyed.slice((shown - 1) * size, shown * size).map(({ job }) => job);
  return { items, total: found.length, counts, page: shown, size };
}

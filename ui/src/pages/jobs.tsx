/** The list of jobs: filters, order and page are in the URL. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ActionButtons } from "../actions";
import { followEvents, messageOf, query as queryOf, request } from "../api";
import { NamespaceSelect } from "../app";
import { age, bytes, count, dateTime, duration, durationOf, visible } from "../format";
import { href, setQuery } from "../router";
import { selectRows, SORTS, type Selection } from "../selection";
import { Status } from "../status";
import type { JobRow, JobsPage, Permissions, RowsEvent } from "../types";
import { Meter, Problem, useLoaded, useNow, useTitle } from "../ui";

const SIZE = 50;
const TYPING_MS = 200;
const MAX_ROLES = 3;

export function keyOf(job: { namespace: string; name: string }): string {
  return `${job.namespace}/${job.name}`;
}

export function Jobs({ namespace, query }: { namespace: string; query: URLSearchParams }) {
  useTitle("Jobs");
  const selection: Selection = {
    text: query.get("q") ?? "",
    states: (query.get("state") ?? "").split(",").filter(Boolean),
    sort: query.get("sort") ?? "-created",
    page: Math.max(1, Number(query.get("page")) || 1),
    size: SIZE,
  };
  const { rows, error } = useRows(namespace);
  const isLive = rows !== null;
  // Until the stream has sent all rows, the server selects.
  const first = useLoaded<JobsPage | null>(
    async (signal) => (isLive ? null : request<JobsPage>(`jobs${serverQuery(namespace, selection)}`, { signal })),
    [namespace, isLive ? "" : selection],
  );
  const selected = useMemo(
    () => (rows ? selectRows(rows.values(), selection) : null),
    [rows, selection.text, selection.states.join(), selection.sort, selection.page],
  );
  const shown = selected ?? first.data;
  const [marked, setMarked] = useState<ReadonlySet<string>>(new Set());
  const known = (key: string) => rows?.get(key) ?? shown?.items.find((job) => keyOf(job) === key);
  const markedJobs = [...marked].map(known).filter((job) => job !== undefined);
  const permissionsOf = usePermissions(shown?.items ?? []);
  useEffect(() => setMarked(new Set()), [namespace]);

  return (
    <>
      <div class="title">
        <h1>Jobs</h1>
        <NamespaceSelect value={namespace} hasAll />
      </div>
      <Filters selection={selection} counts={shown?.counts ?? {}} />
      <Problem text={error ?? first.error} retry={first.reload} />
      <div class="toolbar">
        <span role="status">
          {shown ? (shown.total === 0 ? "No jobs" : count(shown.total, "job")) : "Loading…"}
          {markedJobs.length > 0 && `, ${markedJobs.length} selected`}
        </span>
        {markedJobs.length > 0 && (
          <>
            <ActionButtons jobs={markedJobs} permissionsOf={permissionsOf} onDone={() => setMarked(new Set())} />
            <button type="button" onClick={() => setMarked(new Set())}>
              Clear selection
            </button>
          </>
        )}
      </div>
      {shown && shown.items.length > 0 && (
        <Table
          jobs={shown.items}
          sort={selection.sort}
          hasNamespaces={namespace === "*"}
          marked={marked}
          setMarked={setMarked}
        />
      )}
      {shown && shown.total === 0 && <Empty isFiltered={selection.text !== "" || selection.states.length > 0} />}
      {shown && shown.total > SIZE && <Pager page={shown.page} pages={Math.ceil(shown.total / SIZE)} />}
    </>
  );
}

function serverQuery(namespace: string, { text, states, sort, page, size }: Selection): string {
  return queryOf({ namespace, state: states.join(","), q: text, sort, page, size });
}

/** Follow all jobs of a namespace. The map is replaced at each change. */
function useRows(namespace: string): { rows: ReadonlyMap<string, JobRow> | null; error: string | null } {
  const [state, setState] = useState<{ namespace: string; rows: Map<string, JobRow> | null; error: string | null }>({
    namespace,
    rows: null,
    error: null,
  });
  useEffect(() => {
    const abort = new AbortController();
    let rows: Map<string, JobRow> | null = null;
    let isComplete = false;
    const publish = (error: string | null) => abort.signal.aborted || setState({ namespace, rows, error });
    followEvents(`jobs/stream${queryOf({ namespace })}`, abort.signal, {
      open: () => {
        isComplete = false;
      },
      rows: ({ upserts, deleted }: RowsEvent) => {
        rows = isComplete ? new Map(rows) : new Map();
        isComplete = true;
        for (const job of upserts) rows.set(keyOf(job), job);
        for (const job of deleted) rows.delete(keyOf(job));
        publish(null);
      },
      error: ({ code, message }: { code: string; message: string }) => {
        // What the viewer may not see any more is not shown any more.
        if (code === "forbidden") rows = null;
        publish(message);
      },
    }).catch((error: unknown) => publish(messageOf(error)));
    return () => abort.abort();
  }, [namespace]);
  return state.namespace === namespace ? state : { rows: null, error: null };
}

/** Ask for the permissions in the namespaces of the shown jobs. */
function usePermissions(jobs: JobRow[]): (job: JobRow) => Permissions | null {
  const namespaces = [...new Set(jobs.map((job) => job.namespace))].sort();
  const { data } = useLoaded(
    async (signal) =>
      new Map(
        await Promise.all(
          namespaces.map(
            async (name) =>
              [name, await request<Permissions>(`permissions${queryOf({ namespace: name })}`, { signal })] as const,
          ),
        ),
      ),
    [namespaces],
  );
  return (job) => data?.get(job.namespace) ?? null;
}

function Filters({ selection, counts }: { selection: Selection; counts: Record<string, number> }) {
  const [text, setText] = useState(selection.text);
  const typing = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => setText(selection.text), [selection.text]);
  useEffect(() => () => clearTimeout(typing.current), []);
  const states = [...new Set([...Object.keys(counts).filter((state) => counts[state]! > 0), ...selection.states])].sort();
  const toggle = (state: string) => {
    const chosen = selection.states.includes(state)
      ? selection.states.filter((each) => each !== state)
      : [...selection.states, state];
    setQuery({ state: chosen.join(","), page: "" }, true);
  };
  return (
    <div class="filters">
      <input
        type="search"
        aria-label="Filter jobs"
        placeholder="Filter by name or verdict"
        value={text}
        onInput={(event) => {
          const value = event.currentTarget.value;
          setText(value);
          clearTimeout(typing.current);
          typing.current = setTimeout(() => setQuery({ q: value, page: "" }), TYPING_MS);
        }}
      />
      <div class="chips" role="group" aria-label="States">
        {states.map((state) => (
          <button
            key={state}
            type="button"
            class="chip"
            aria-pressed={selection.states.includes(state)}
            onClick={() => toggle(state)}
          >
            <Status state={state} /> {counts[state] ?? 0}
          </button>
        ))}
      </div>
      <label class="field narrow-only">
        Sort{" "}
        <select value={selection.sort} onChange={(event) => setQuery({ sort: event.currentTarget.value, page: "" }, true)}>
          {SORTS.flatMap(([name, label]) => [
            <option key={name} value={name}>
              {label}
            </option>,
            <option key={`-${name}`} value={`-${name}`}>
              {label}, descending
            </option>,
          ])}
        </select>
      </label>
    </div>
  );
}

function Table({
  jobs,
  sort,
  hasNamespaces,
  marked,
  setMarked,
}: {
  jobs: JobRow[];
  sort: string;
  hasNamespaces: boolean;
  marked: ReadonlySet<string>;
  setMarked: (marked: ReadonlySet<string>) => void;
}) {
  const now = useNow(1000);
  const keys = jobs.map(keyOf);
  const areAllMarked = keys.every((key) => marked.has(key));
  const mark = (changed: string[], isMarked: boolean) => {
    const next = new Set(marked);
    for (const key of changed) {
      if (isMarked) next.add(key);
      else next.delete(key);
    }
    setMarked(next);
  };
  return (
    <table class="jobs" role="table">
      <thead role="rowgroup">
        <tr role="row">
          <th role="columnheader" class="mark">
            <input
              type="checkbox"
              aria-label="Select all jobs of this page"
              checked={areAllMarked}
              onChange={(event) => mark(keys, event.currentTarget.checked)}
            />
          </th>
          <Sortable name="state" label="State" sort={sort} />
          <Sortable name="name" label="Job" sort={sort} />
          <th role="columnheader">Tasks</th>
          <th role="columnheader">Progress</th>
          <th role="columnheader">Retries</th>
          <th role="columnheader">Requests</th>
          <Sortable name="created" label="Age" sort={sort} />
          <Sortable name="duration" label="Duration" sort={sort} />
        </tr>
      </thead>
      <tbody role="rowgroup">
        {jobs.map((job) => {
          const key = keyOf(job);
          return (
            <Row
              key={key}
              job={job}
              now={now}
              hasNamespace={hasNamespaces}
              isMarked={marked.has(key)}
              onMark={(isMarked) => mark([key], isMarked)}
            />
          );
        })}
      </tbody>
    </table>
  );
}

function Sortable({ name, label, sort }: { name: string; label: string; sort: string }) {
  const isSorted = sort === name || sort === `-${name}`;
  const isDescending = sort === `-${name}`;
  // Newest, longest first; names and states from A to Z.
  const isDescendingFirst = name === "created" || name === "duration";
  const next = isSorted ? (isDescending ? name : `-${name}`) : isDescendingFirst ? `-${name}` : name;
  return (
    <th role="columnheader" aria-sort={isSorted ? (isDescending ? "descending" : "ascending") : undefined}>
      <button type="button" class="plain sort" onClick={() => setQuery({ sort: next, page: "" }, true)}>
        {label}
        <span aria-hidden="true">{isSorted ? (isDescending ? " ↓" : " ↑") : ""}</span>
      </button>
    </th>
  );
}

function Row({
  job,
  now,
  hasNamespace,
  isMarked,
  onMark,
}: {
  job: JobRow;
  now: number;
  hasNamespace: boolean;
  isMarked: boolean;
  onMark: (isMarked: boolean) => void;
}) {
  return (
    <tr role="row" class={isMarked ? "marked" : ""} data-job={keyOf(job)}>
      <td role="cell" class="mark">
        <input
          type="checkbox"
          aria-label={`Select ${job.name}`}
          checked={isMarked}
          onChange={(event) => onMark(event.currentTarget.checked)}
        />
      </td>
      <td role="cell" class="state">
        <Status state={job.state} />
      </td>
      <td role="cell" class="job">
        <a href={href(["jobs", job.namespace, job.name])}>
          {hasNamespace && <span class="muted">{job.namespace}/</span>}
          {job.name}
        </a>
        {!job.exists && <span class="tag">deleted, recorded</span>}
        <div class="verdict">{visible(job.message)}</div>
      </td>
      <td role="cell" class="tasks">
        <Tasks job={job} limit={MAX_ROLES} />
      </td>
      <td role="cell" class="progress">
        <Progress job={job} />
      </td>
      <td role="cell" class="retries" data-label="Retries">
        <Retries job={job} />
      </td>
      <td role="cell" class="small resources" data-label="Requests">
        <Resources job={job} />
      </td>
      <td role="cell" class="number" data-label="Age" title={dateTime(job.created)}>
        {age(job.created, now)}
      </td>
      <td role="cell" class="number" data-label="Duration">
        {duration(durationOf(job, now))}
      </td>
    </tr>
  );
}

export function Tasks({ job, limit = Infinity }: { job: JobRow; limit?: number }) {
  // Roles with failures first: they must not be among those left out.
  const roles = [...job.roles].sort((first, second) => Number(second.failed > 0) - Number(first.failed > 0));
  const more = roles.length > limit ? roles.length - limit : 0;
  return (
    <ul class="roles">
      {(more > 0 ? roles.slice(0, limit) : job.roles).map((role) => {
        const parts = (["running", "succeeded", "failed", "waiting"] as const)
          .filter((state) => role[state] > 0)
          .map((state) => `${role[state]} ${state}`);
        return (
          <li key={role.name}>
            {role.tasks} {role.name}
            {parts.length > 0 && <span class={role.failed > 0 ? "tone-bad" : "muted"}>: {parts.join(", ")}</span>}
          </li>
        );
      })}
      {more > 0 && <li class="muted">and {count(more, "more role")}</li>}
    </ul>
  );
}

export function Progress({ job: { name, progress } }: { job: JobRow }) {
  if (!progress) return null;
  return (
    <>
      {progress.value !== null && <Meter value={progress.value} label={`Progress of ${name}`} />}
      <div class="small">{visible(progress.text)}</div>
    </>
  );
}

export function Retries({ job }: { job: JobRow }) {
  const classes = Object.entries(job.retries.byClass).sort(([, first], [, second]) => second - first);
  return (
    <>
      {job.retries.total}
      {classes.length > 0 && <div class="small">{classes.map(([name, number]) => `${name} ${number}`).join(", ")}</div>}
    </>
  );
}

export function Resources({ job }: { job: JobRow }) {
  const { cpu, memory, gpus } = job.resources;
  const parts = [cpu ? `${Number(cpu.toPrecision(4))} CPU` : "", memory ? bytes(memory) : "", gpus ? `${gpus} GPU` : ""];
  return <>{parts.filter(Boolean).join(", ") || "–"}</>;
}

function Empty({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered)
    return (
      <p>
        No job matches.{" "}
        <button type="button" onClick={() => setQuery({ q: "", state: "", page: "" }, true)}>
          Remove the filters
        </button>
      </p>
    );
  return (
    <p>
      This namespace has no jobs. Run <code>windlass submit job.yaml</code>, or <a href={href(["submit"])}>submit a file here</a>.
    </p>
  );
}

function Pager({ page, pages }: { page: number; pages: number }) {
  const turn = (to: number) => setQuery({ page: to === 1 ? "" : String(to) }, true);
  return (
    <nav class="pager" aria-label="Pages of the list">
      <button type="button" disabled={page <= 1} onClick={() => turn(page - 1)}>
        Previous
      </button>
      <span>
        Page {page} of {pages}
      </span>
      <button type="button" disabled={page >= pages} onClick={() => turn(page + 1)}>
        Next
      </button>
    </nav>
  );
}

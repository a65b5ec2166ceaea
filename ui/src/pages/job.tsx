/** One job: verdict, why, timeline, details of an attempt; logs, metrics and the file are tabs. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ActionButtons } from "../actions";
import { followEvents, jobPath, messageOf, request } from "../api";
import { age, dateTime, duration, durationOf, visible } from "../format";
import { go, href, setQuery } from "../router";
import { Status } from "../status";
import { Timeline, type Selected } from "../timeline/timeline";
import type { AttemptDetail, JobDetail, TimelineData } from "../types";
import { notify, Problem, type Loaded, Unfolding, useLoaded, useNow, useTitle } from "../ui";
import { Progress, Resources, Retries, Tasks } from "./jobs";
import { Logs } from "./logs";
import { MetricsPage } from "./metrics";

const TABS = [
  ["", "Overview"],
  ["logs", "Logs"],
  ["metrics", "Metrics"],
  ["file", "File"],
] as const;
/** The timeline is loaded again at most this often, and at most for a fifth of the time. */
const RELOAD_MS = 1_000;
const RELOAD_FACTOR = 5;
const EVENTS_SHOWN = 100;
const TASKS_SHOWN = 200;

export function Job({ namespace, name, tab, query }: { namespace: string; name: string; tab: string; query: URLSearchParams }) {
  const title = TABS.find(([path]) => path === tab)?.[1];
  useTitle(title && tab ? `${title} of ${name}` : name);
  const { job, error } = useJob(namespace, name);
  // Loaded at the same time as the job: it is the largest part of the page.
  const timeline = useTimeline(namespace, name, job, tab === "");
  return (
    <>
      <nav class="crumbs" aria-label="Position">
        <a href={href(["jobs"], { ns: namespace })}>Jobs in {namespace}</a>
      </nav>
      <div class="title">
        <h1>{name}</h1>
        {job && <Status state={job.state} />}
        <span class="spacer" />
        {job && (
          <ActionButtons
            jobs={[job]}
            permissionsOf={() => job.permissions}
            onDone={(action, results) => {
              const [result] = results;
              if (action === "run-again" && result?.ok && result.createdName) go(["jobs", namespace, result.createdName]);
              if (action === "delete" && result?.ok) go(["jobs"], { ns: namespace });
            }}
          />
        )}
      </div>
      <nav class="tabs" aria-label="Parts of the job">
        {TABS.filter(([path]) => path !== "logs" || job?.permissions.logs !== false).map(([path, label]) => (
          <a
            key={path}
            href={href(["jobs", namespace, name, ...(path ? [path] : [])])}
            aria-current={path === tab ? "page" : undefined}
          >
            {label}
          </a>
        ))}
      </nav>
      <Problem text={error} />
      {!job && !error && <p>Loading…</p>}
      {job && tab === "" && <Overview job={job} timeline={timeline} query={query} />}
      {job && tab === "logs" && <Logs job={job} query={query} />}
      {job && tab === "metrics" && <MetricsPage job={job} query={query} />}
      {job && tab === "file" && <File job={job} />}
    </>
  );
}

function useJob(namespace: string, name: string): { job: JobDetail | null; error: string | null } {
  const loaded = useLoaded((signal) => request<JobDetail>(jobPath(namespace, name), { signal }), [namespace, name]);
  const [live, setLive] = useState<JobDetail | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [isForbidden, setForbidden] = useState(false);
  const isLoaded = loaded.data !== null || loaded.error !== null;
  useEffect(() => {
    if (!isLoaded) return undefined;
    const abort = new AbortController();
    followEvents(jobPath(namespace, name, "/stream"), abort.signal, {
      job: (job: JobDetail) => {
        setLive(job);
        setProblem(null);
        setForbidden(false);
      },
      error: ({ code, message }: { code: string; message: string }) => {
        // What the viewer may not see any more is not shown any more.
        if (code === "forbidden") setForbidden(true);
        setProblem(message);
      },
    }).catch((error: unknown) => abort.signal.aborted || setProblem(messageOf(error)));
    return () => abort.abort();
  }, [namespace, name, isLoaded]);
  const job = isForbidden ? null : (live ?? loaded.data);
  return { job, error: job ? problem : (loaded.error ?? problem) };
}

function Overview({ job, timeline, query }: { job: JobDetail; timeline: Loaded<TimelineData | null>; query: URLSearchParams }) {
  const now = useNow(1000, job.finished === null);
  const selected = parseSelected(query.get("attempt"));
  const why = job.why.filter((paragraph) => paragraph !== job.message);
  return (
    <>
      <p class="lead">{visible(job.message)}</p>
      {why.length > 0 && (
        <section class="why" aria-labelledby="why">
          <h2 id="why">Why</h2>
          {why.map((paragraph, position) => (
            <p key={position}>{paragraph.split("\n").map((line) => visible(line)).join("\n")}</p>
          ))}
        </section>
      )}
      <TimelineSection job={job} timeline={timeline} selected={selected} />
      <div class="columns">
        <section aria-labelledby="summary">
          <h2 id="summary">Summary</h2>
          <dl class="facts">
            <dt>Tasks</dt>
            <dd>
              <Tasks job={job} />
            </dd>
            <dt>Progress</dt>
            <dd>
              {job.progress ? <Progress job={job} /> : "not reported"}
            </dd>
            <dt>Retries</dt>
            <dd>
              <Retries job={job} />
            </dd>
            <dt>Attempt</dt>
            <dd>{job.attempt}</dd>
            <dt>Requests</dt>
            <dd>
              <Resources job={job} />
            </dd>
            <dt>Created</dt>
            <dd>
              {dateTime(job.created)} ({age(job.created, now)} ago)
            </dd>
            <dt>Duration</dt>
            <dd>{duration(durationOf(job, now))}</dd>
          </dl>
        </section>
        <section aria-labelledby="details">
          <h2 id="details">Details</h2>
          <dl class="facts">
            {Object.entries(job.facts)
              .filter(([, value]) => value !== "")
              .map(([fact, value]) => (
                <>
                  <dt>{fact}</dt>
                  <dd class="text">{visible(value)}</dd>
                </>
              ))}
            {job.outputs && (
              <>
                <dt>Outputs</dt>
                <dd class="text">{job.outputs}</dd>
              </>
            )}
          </dl>
        </section>
      </div>
      <TaskTable job={job} />
    </>
  );
}

function parseSelected(text: string | null): Selected | null {
  const match = /^([a-z0-9-]+-\d+)\.(\d+)\.(\d+)$/.exec(text ?? "");
  return match ? { lane: match[1]!, attempt: Number(match[2]), taskAttempt: Number(match[3]) } : null;
}

function useTimeline(
  namespace: string,
  name: string,
  job: JobDetail | null,
  isShown: boolean,
): Loaded<TimelineData | null> {
  const took = useRef(0);
  const loaded = useLoaded(
    async (signal) => {
      if (!isShown) return null;
      const started = performance.now();
      const data = await request<TimelineData>(jobPath(namespace, name, "/timeline"), { signal });
      took.current = performance.now() - started;
      return data;
    },
    [namespace, name, isShown],
  );
  // Each change of the job may have changed the timeline.
  const pending = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const known = useRef<JobDetail | null>(null);
  useEffect(() => {
    const isFirst = known.current === null;
    known.current = job;
    if (isFirst || job === null) return;
    pending.current ??= setTimeout(
      () => {
        pending.current = undefined;
        loaded.reload();
      },
      Math.max(RELOAD_MS, RELOAD_FACTOR * took.current),
    );
  }, [job]);
  useEffect(() => () => clearTimeout(pending.current), []);
  return loaded;
}

function TimelineSection({
  job,
  timeline: { data, error, reload },
  selected,
}: {
  job: JobDetail;
  timeline: Loaded<TimelineData | null>;
  selected: Selected | null;
}) {
  if (!data) return error ? <Problem text={error} retry={reload} /> : <p>Loading the timeline…</p>;
  return (
    <section aria-labelledby="timeline">
      <h2 id="timeline">Timeline</h2>
      <div class={selected ? "with-details" : ""}>
        <Timeline
          data={data}
          isLive={job.finished === null && job.exists}
          selected={selected}
          onSelect={(bar) =>
            setQuery({ attempt: bar ? `${bar.role}-${bar.index}.${bar.attempt}.${bar.taskAttempt}` : "" }, bar !== null)
          }
        />
        {selected && <Details job={job} selected={selected} />}
      </div>
      <Events data={data} />
    </section>
  );
}

function Details({ job, selected }: { job: JobDetail; selected: Selected }) {
  const { lane, attempt, taskAttempt } = selected;
  const path = jobPath(job.namespace, job.name, `/attempts/${attempt}/tasks/${lane}/${taskAttempt}`);
  const { data, error, reload } = useLoaded((signal) => request<AttemptDetail>(path, { signal }), [path]);
  const known = useRef(job);
  useEffect(() => {
    if (known.current !== job) reload();
    known.current = job;
  }, [job]);
  return (
    <aside class="details" aria-label={`Attempt ${taskAttempt} of ${lane}`}>
      <div class="title">
        <h3>
          {lane}, attempt {taskAttempt}
        </h3>
        <span class="spacer" />
        <button type="button" class="plain" aria-label="Close the details" onClick={() => setQuery({ attempt: "" })}>
          ×
        </button>
      </div>
      <Problem text={error} />
      {data && (
        <>
          <dl class="facts">
            <dt>Job attempt</dt>
            <dd>{data.attempt}</dd>
            <dt>Node</dt>
            <dd>{data.node || "not scheduled"}</dd>
            <dt>Pod</dt>
            <dd class="text">{data.podName || "–"}</dd>
            {data.times.map(({ state, time }) => (
              <>
                <dt>{state}</dt>
                <dd>{dateTime(time)}</dd>
              </>
            ))}
            {data.exitCodes.map(({ container, code, signal, reason }) => (
              <>
                <dt>{container}</dt>
                <dd>
                  {code === null ? "no exit code" : `exit code ${code}`}
                  {signal ? `, signal ${signal}` : ""}
                  {reason ? ` (${visible(reason)})` : ""}
                </dd>
              </>
            ))}
            {data.class && (
              <>
                <dt>Class</dt>
                <dd>{data.class}</dd>
              </>
            )}
            {data.decision && (
              <>
                <dt>Decision</dt>
                <dd>
                  {data.decision}
                  {data.decisionReason && `: ${visible(data.decisionReason)}`}
                </dd>
              </>
            )}
          </dl>
          {data.lastLines.length > 0 && (
            <>
              <h4>Last lines</h4>
              <pre class="lines" tabIndex={0} aria-label="Last lines of the log">
                {data.lastLines.map((line) => visible(line)).join("\n")}
              </pre>
            </>
          )}
          {job.permissions.logs && (
            <a
              href={href(["jobs", job.namespace, job.name, "logs"], {
                task: lane,
                attempt: String(attempt),
                taskAttempt: String(taskAttempt),
              })}
            >
              Log of this attempt
            </a>
          )}
        </>
      )}
    </aside>
  );
}

function Events({ data }: { data: TimelineData }) {
  const shown = data.events.slice(-EVENTS_SHOWN).reverse();
  if (shown.length === 0) return null;
  return (
    <Unfolding title={`Events (${data.events.length})`}>
      {() => (
        <div class="scroll" tabIndex={0} role="region" aria-label="Events">
          <table>
            <thead>
              <tr>
                <th>Time</th>
                <th>Type</th>
                <th>Reason</th>
                <th>Object</th>
                <th>Message</th>
              </tr>
            </thead>
            <tbody>
              {shown.map(({ time, reason, message, object, type }, position) => (
                <tr key={position}>
                  <td class="number">{dateTime(time)}</td>
                  <td class={type === "Warning" ? "tone-waiting" : ""}>{type}</td>
                  <td>{reason}</td>
                  <td>{object}</td>
                  <td class="text">{visible(message)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Unfolding>
  );
}

function TaskTable({ job }: { job: JobDetail }) {
  const total = job.roles.reduce((sum, role) => sum + role.tasks, 0);
  // Failed tasks first: they are what people look for.
  const ordered = useMemo(
    () => [...job.tasks].sort((first, second) => Number(second.state === "Failed") - Number(first.state === "Failed")),
    [job.tasks],
  );
  if (job.tasks.length === 0) return null;
  const shown = ordered.slice(0, TASKS_SHOWN);
  return (
    <Unfolding title={`Tasks (${shown.length === total ? total : `${shown.length} of ${total}`})`}>
      {() => (
        <div class="scroll" tabIndex={0} role="region" aria-label="Tasks">
          <table>
            <thead>
              <tr>
                <th>Task</th>
                <th>State</th>
                <th>Node</th>
                <th>Pod</th>
                <th>Message</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((task) => (
                <tr key={`${task.role}-${task.index}`}>
                  <td>
                    {task.role}-{task.index}
                  </td>
                  <td>
                    <Status state={task.state} />
                  </td>
                  <td>{task.node}</td>
                  <td>{task.podName}</td>
                  <td class="text">{visible(task.message)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Unfolding>
  );
}

function File({ job }: { job: JobDetail }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(job.spec);
      notify("The file is copied.");
    } catch {
      notify("The browser does not allow copying. Select the text instead.", true);
    }
  };
  return (
    <section aria-labelledby="file">
      <div class="title">
        <h2 id="file">The submitted object</h2>
        <span class="spacer" />
        <button type="button" onClick={() => void copy()}>
          Copy
        </button>
      </div>
      <pre class="file" tabIndex={0} aria-label="YAML">
        {job.spec}
      </pre>
    </section>
  );
}

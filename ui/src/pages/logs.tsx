/** The logs of several tasks, merged by the server. The search covers the whole logs and happens on the server. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { generation, isAbort, jobPath, LONG_MS, messageOf, query as queryOf, readLines, request } from "../api";
import { bytes, clock, count, dateTime, visible } from "../format";
import { highlight, LogBuffer, MAX_SHOWN, splitMatches, type Entry, type Received } from "../logs";
import { setQuery } from "../router";
import { useStore } from "../store";
import type { JobDetail, LogMatch, LogSearch } from "../types";
import { Dialog, Problem, useLoaded, useWindow } from "../ui";

const ROW_HEIGHT = 20;
const TAILS = [500, 5_000, 50_000];
const SEARCH_DELAY_MS = 400;
const PAINT_MS = 100;
/** Regular expressions of the browser can take exponential time, so that long lines are not highlighted with them. */
const MAX_REGEX_LENGTH = 500;

export function Logs({ job, query }: { job: JobDetail; query: URLSearchParams }) {
  const task = query.get("task") ?? "";
  const attempt = query.get("attempt") ?? "";
  const taskAttempt = query.get("taskAttempt") ?? "";
  const tail = Number(query.get("tail")) || TAILS[0]!;
  const isFollowing = query.get("follow") !== "0";
  const text = query.get("q") ?? "";
  const isRegex = query.get("regex") === "1";
  const path = jobPath(job.namespace, job.name, "/logs");
  const filter = { task, attempt, taskAttempt };
  // The server ends the stream with the job, so that the lines stay when the job ends.
  const [wasRunning] = useState(job.finished === null);
  const log = useLog(path + queryOf({ ...filter, tail, follow: isFollowing && wasRunning ? 1 : "" }));
  const [target, setTarget] = useState<LogMatch | null>(null);
  const pattern = useMemo(() => highlight(text, isRegex), [text, isRegex]);

  const jump = (match: LogMatch) => {
    setTarget({ ...match });
    if (log.buffer.find(match) >= 0) return;
    // The line is older than the loaded ones.
    setQuery({ tail: String(TAILS.at(-1)), task: match.task, follow: "0" });
  };
  return (
    <>
      <div class="toolbar">
        <TaskSelect job={job} value={task} />
        {(job.attempts.length > 1 || attempt !== "") && (
          <label class="field">
            Job attempt{" "}
            <select value={attempt} onChange={(event) => setQuery({ attempt: event.currentTarget.value, taskAttempt: "" }, true)}>
              <option value="">Latest</option>
              <option value="all">All</option>
              {[...new Set([...job.attempts, ...(Number.isInteger(Number(attempt)) && attempt ? [Number(attempt)] : [])])].map((number) => (
                <option key={number} value={String(number)}>
                  {number}
                </option>
              ))}
            </select>
          </label>
        )}
        {taskAttempt && (
          <button type="button" onClick={() => setQuery({ taskAttempt: "" }, true)}>
            Attempt {taskAttempt} of the task only ×
          </button>
        )}
        <label class="field">
          Last{" "}
          <select value={String(tail)} onChange={(event) => setQuery({ tail: event.currentTarget.value }, true)}>
            {[...new Set([...TAILS, tail])].map((number) => (
              <option key={number} value={String(number)}>
                {number.toLocaleString("en")} lines
              </option>
            ))}
          </select>
        </label>
        <label class="field">
          <input
            type="checkbox"
            checked={isFollowing}
            onChange={(event) => setQuery({ follow: event.currentTarget.checked ? "" : "0" })}
          />{" "}
          Follow
        </label>
        <span class="spacer" />
        <a class="button" href={`api/v1/${path}/download${queryOf(filter)}`} download>
          Download
        </a>
      </div>
      <Search path={path} filter={filter} text={text} isRegex={isRegex} onJump={jump} />
      <Problem text={log.error} retry={log.reload} />
      <Lines log={log} isFollowing={isFollowing} pattern={pattern} isRegex={isRegex} target={target} />
    </>
  );
}

function TaskSelect({ job, value }: { job: JobDetail; value: string }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const names = [...job.roles.map((role) => role.name), ...job.tasks.slice(0, 500).map((task) => `${task.role}-${task.index}`)];
  return (
    <label class="field">
      Tasks{" "}
      <input
        type="text"
        list="task-names"
        placeholder="all, e.g. worker,ps-0"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onChange={(event) => setQuery({ task: event.currentTarget.value.replaceAll(" ", ""), taskAttempt: "" }, true)}
      />
      <datalist id="task-names">
        {names.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </label>
  );
}

// Loading

interface Log {
  buffer: LogBuffer;
  /** Changes whenever the buffer does. */
  version: number;
  isEnded: boolean;
  error: string | null;
  reload: () => void;
}

function useLog(path: string): Log {
  const buffer = useRef(new LogBuffer());
  const [version, setVersion] = useState(0);
  const [state, setState] = useState<{ isEnded: boolean; error: string | null }>({ isEnded: false, error: null });
  const [round, setRound] = useState(0);
  const epoch = useStore(generation);
  useEffect(() => {
    const abort = new AbortController();
    buffer.current = new LogBuffer();
    setState({ isEnded: false, error: null });
    let paint: ReturnType<typeof setTimeout> | undefined;
    const changed = () => {
      paint ??= setTimeout(() => {
        paint = undefined;
        setVersion((number) => number + 1);
      }, PAINT_MS);
    };
    changed();
    readLines<Received>(path, abort.signal, (lines) => {
      buffer.current.add(lines);
      changed();
    }).then(
      () => setState({ isEnded: true, error: null }),
      (error: unknown) => isAbort(error) || setState({ isEnded: true, error: messageOf(error) }),
    );
    return () => {
      abort.abort();
      clearTimeout(paint);
    };
  }, [path, round, epoch]);
  return { buffer: buffer.current, version, ...state, reload: () => setRound((number) => number + 1) };
}

// Showing

function Lines({
  log,
  isFollowing,
  pattern,
  isRegex,
  target,
}: {
  log: Log;
  isFollowing: boolean;
  pattern: RegExp | null;
  isRegex: boolean;
  target: LogMatch | null;
}) {
  const scroller = useRef<HTMLDivElement>(null);
  const [open, setOpen] = useState<Entry | null>(null);
  const { entries } = log.buffer;
  const range = useWindow(scroller, ROW_HEIGHT, entries.length);
  const isAtEnd = useRef(true);
  const lastTop = useRef(0);
  const targeted = target ? log.buffer.find(target) : -1;

  // Follow unless the user has scrolled up.
  useEffect(() => {
    const element = scroller.current!;
    if (isFollowing && isAtEnd.current) element.scrollTop = element.scrollHeight;
  }, [log.version, isFollowing]);
  useEffect(() => {
    if (targeted < 0) return;
    isAtEnd.current = false;
    const element = scroller.current!;
    element.scrollTop = Math.max(0, targeted * ROW_HEIGHT - element.clientHeight / 2);
  }, [target, targeted >= 0]);

  const width = useMemo(
    () => entries.reduce((most, entry) => Math.max(most, entry.kind === "line" ? entry.line.task.length : 0), 4),
    [log.version],
  );
  return (
    <>
      <div
        class="log"
        ref={scroller}
        tabIndex={0}
        role="log"
        aria-label="Log lines"
        aria-live="off"
        onScroll={(event) => {
          const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
          // More lines may have arrived since the page scrolled to the end: only the user scrolls up.
          if (scrollTop + clientHeight >= scrollHeight - 2 * ROW_HEIGHT) isAtEnd.current = true;
          else if (scrollTop < lastTop.current) isAtEnd.current = false;
          lastTop.current = scrollTop;
        }}
      >
        <div class="space" style={{ height: `${entries.length * ROW_HEIGHT}px`, "--task-width": `${width + 1}ch` }}>
          {entries.slice(range.first, range.last).map((entry, offset) => {
            const position = range.first + offset;
            return (
              <div
                key={position + log.buffer.dropped}
                class={`line${position === targeted ? " target" : ""}${entry.kind === "gap" ? " gap" : ""}`}
                style={{ top: `${position * ROW_HEIGHT}px` }}
              >
                {entry.kind === "gap" ? (
                  visible(entry.text)
                ) : (
                  <Line
                    entry={entry}
                    pattern={isRegex && entry.shown.length > MAX_REGEX_LENGTH ? null : pattern}
                    onOpen={() => setOpen(entry)}
                  />
                )}
              </div>
            );
          })}
        </div>
      </div>
      <p class="muted small" role="status">
        {count(entries.length, "line")}
        {log.buffer.dropped > 0 && `, ${log.buffer.dropped.toLocaleString("en")} older ones dropped`}
        {log.isEnded ? ", end of the log" : isFollowing ? ", following" : ""}. Double-click a line to see all of it.
      </p>
      {open?.kind === "line" && (
        <Dialog title={`${open.line.task}, ${dateTime(open.line.time)}`} onClose={() => setOpen(null)}>
          <pre class="file" tabIndex={0}>
            {visible(open.line.text)}
          </pre>
          <div class="buttons">
            <button type="button" onClick={() => setOpen(null)}>
              Close
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}

function Line({
  entry,
  pattern,
  onOpen,
}: {
  entry: Entry & { kind: "line" };
  pattern: RegExp | null;
  onOpen: () => void;
}) {
  const { line, shown } = entry;
  return (
    <>
      <time title={dateTime(line.time)}>{clock(line.time)}</time>
      <span class={`task hue-${hueOf(line.task)}`}>{line.task}</span>
      {line.text.length > MAX_SHOWN && (
        <button type="button" class="plain small" onClick={onOpen}>
          Show all
        </button>
      )}
      <span class="content">
        {splitMatches(shown, pattern).map((part, position) => (position % 2 ? <mark key={position}>{part}</mark> : part))}
      </span>
    </>
  );
}

function hueOf(task: string): number {
  let hash = 0;
  for (const character of task) hash = (hash * 31 + character.charCodeAt(0)) >>> 0;
  return hash % 8;
}

// Searching

function Search({
  path,
  filter,
  text,
  isRegex,
  onJump,
}: {
  path: string;
  filter: Record<string, string>;
  text: string;
  isRegex: boolean;
  onJump: (match: LogMatch) => void;
}) {
  const [typed, setTyped] = useState(text);
  const typing = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => setTyped(text), [text]);
  useEffect(() => () => clearTimeout(typing.current), []);
  const search = (value: string) => {
    clearTimeout(typing.current);
    setQuery({ q: value });
  };
  const parameters = queryOf({ ...filter, q: text, regex: isRegex ? 1 : "" });
  const { data, error } = useLoaded(
    async (signal) => (text === "" ? null : request<LogSearch>(`${path}/search${parameters}`, { signal, timeout: LONG_MS })),
    [parameters],
  );
  const errors = useLoaded(
    (signal) => request<LogSearch>(`${path}/search${queryOf({ ...filter, q: "" })}`, { signal, timeout: LONG_MS }),
    [filter],
  );
  const firstError = data?.firstError ?? errors.data?.firstError ?? null;
  return (
    <form
      class="search"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        search(typed);
      }}
    >
      <div class="toolbar">
        <input
          type="search"
          aria-label="Search the whole logs"
          placeholder="Search the whole logs"
          value={typed}
          onInput={(event) => {
            const { value } = event.currentTarget;
            setTyped(value);
            clearTimeout(typing.current);
            typing.current = setTimeout(() => search(value), SEARCH_DELAY_MS);
          }}
        />
        <label class="field">
          <input type="checkbox" checked={isRegex} onChange={(event) => setQuery({ regex: event.currentTarget.checked ? "1" : "" })} />{" "}
          Regular expression
        </label>
        {firstError && (
          <button type="button" onClick={() => onJump(firstError)}>
            First error ({firstError.task})
          </button>
        )}
        <span role="status">
          {data && `${count(data.total, "match", "matches")} in ${bytes(data.scannedBytes)}`}
          {!data && text !== "" && !error && "Searching…"}
        </span>
      </div>
      <Problem text={error} />
      {data && data.total > 0 && (
        <div class="matches">
          <ul class="chips" aria-label="Matches by task">
            {Object.entries(data.byTask).map(([task, number]) => (
              <li key={task}>
                <button type="button" class="chip" onClick={() => setQuery({ task }, true)}>
                  {task}: {number.toLocaleString("en")}
                </button>
              </li>
            ))}
          </ul>
          <ol aria-label="First matches" tabIndex={0}>
            {data.first.map((match, position) => (
              <li key={position}>
                <button type="button" class="plain match" onClick={() => onJump(match)}>
                  <span class={`task hue-${hueOf(match.task)}`}>
                    {match.task}:{match.line}
                  </span>{" "}
                  {visible(match.text.slice(0, 300))}
                </button>
              </li>
            ))}
          </ol>
        </div>
      )}
    </form>
  );
}

/**
 * Requests to the server, the session and the connection. A failed connection is reported once, in `connection`; a
 * probe with increasing delays ends that state, and `generation` then tells the pages to load their data again.
 */

import { Store } from "./store";
import type { LoginMode, Session } from "./types";

const BASE = "api/v1/";
const TIMEOUT_MS = 30_000;
export const LONG_MS = 10 * 60_000;
const PROBE_TIMEOUT_MS = 5_000;
/** The server sends at least one message per 15 s. */
const SILENCE_MS = 45_000;
const DELAYS_S = [0, 1, 2, 4, 8, 15];
/** Streams of a hidden tab end after this time: browsers limit the connections per server over all tabs. */
const HIDDEN_MS = 30_000;

export interface Login {
  mode: LoginMode;
  message: string;
}

export interface Connection {
  isLost: boolean;
  /** Time of the next probe, in milliseconds since 1970. */
  retryAt: number;
}

export const session = new Store<Session | null>(null);
export const login = new Store<Login | null>(null);
export const connection = new Store<Connection>({ isLost: false, retryAt: 0 });
export const generation = new Store(0);
const isVisible = new Store(!document.hidden);

let hiding: ReturnType<typeof setTimeout> | undefined;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(() => isVisible.set(false), HIDDEN_MS);
  else isVisible.set(true);
});

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly line: number | null = null,
  ) {
    super(message);
  }
}

/** The request could not be sent, or its response was cut off. The banner shows it. */
export class LostError extends Error {}

export interface RequestOptions {
  method?: "GET" | "POST" | "DELETE";
  body?: unknown;
  signal?: AbortSignal;
  /** For requests whose answer takes long, e.g. a search in whole logs. */
  timeout?: number;
}

/** Return the JSON of the response. Throws ApiError for an error that the server reports, and LostError. */
export async function request<T>(path: string, options: RequestOptions = {}): Promise<T> {
  const signals = [AbortSignal.timeout(options.timeout ?? TIMEOUT_MS)];
  if (options.signal) signals.push(options.signal);
  const limited = { ...options, signal: AbortSignal.any(signals) };
  let response: Response;
  try {
    response = await send(path, limited, options.signal);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "csrf") throw error;
    // The server was restarted.
    session.set(await request<Session>("session"));
    response = await send(path, limited, options.signal);
  }
  if (response.status === 204) return undefined as T;
  try {
    return (await response.json()) as T;
  } catch (error) {
    throw reportLost(error, options.signal);
  }
}

async function send(path: string, options: RequestOptions, caller?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = {};
  if (options.method && options.method !== "GET") {
    headers["Content-Type"] = "application/json";
    if (session.value) headers["X-Windlass-CSRF"] = session.value.csrfToken;
  }
  let response: Response;
  try {
    response = await fetch(BASE + path, {
      method: options.method ?? "GET",
      headers,
      credentials: "same-origin",
      cache: "no-store",
      ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
      ...(options.signal ? { signal: options.signal } : {}),
    });
  } catch (error) {
    throw reportLost(error, caller);
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

function reportLost(error: unknown, caller?: AbortSignal): Error {
  if (caller?.aborted) return new DOMException("aborted", "AbortError");
  void reconnect();
  return new LostError(error instanceof Error ? error.message : String(error));
}

async function errorOf(response: Response): Promise<ApiError> {
  let body: { code?: string; message?: string; mode?: LoginMode; line?: number } = {};
  try {
    body = ((await response.json()) as { error?: typeof body }).error ?? {};
  } catch (error) {
    if (isAbort(error)) throw error;
    // A proxy answered without JSON.
  }
  const message = body.message ?? `The server answered ${response.status} ${response.statusText}.`;
  if (response.status === 401) {
    const mode = body.mode ?? session.value?.mode ?? "link";
    const isFirst = body.code === "no-session" && session.value === null;
    // The first of several requests says why the session ended; the others find none.
    const isKnown = session.value === null && login.value !== null && body.code !== "invalid-token";
    if (!isKnown) login.set({ mode, message: isFirst ? "" : message });
    session.set(null);
  }
  return new ApiError(response.status, body.code ?? "unknown", message, body.line ?? null);
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** Return the text to show for an error; null if the banner or the login page shows it already. */
export function messageOf(error: unknown): string | null {
  if (isAbort(error) || error instanceof LostError) return null;
  if (error instanceof ApiError) return error.status === 401 ? null : error.message;
  return error instanceof Error ? error.message : String(error);
}

// The session

export async function loadSession(): Promise<void> {
  try {
    session.set(await request<Session>("session"));
    login.set(null);
  } catch (error) {
    if (error instanceof ApiError && error.status !== 401) login.set({ mode: "link", message: error.message });
  }
}

export async function logIn(token: string): Promise<void> {
  const made = await request<Session | undefined>("session", { method: "POST", body: { token } });
  session.set(made?.csrfToken ? made : await request<Session>("session"));
  login.set(null);
}

export async function logOut(): Promise<void> {
  await request("session", { method: "DELETE" });
  login.set({ mode: session.value?.mode ?? "token", message: "You are logged out." });
  session.set(null);
}

// The connection

let probing: Promise<void> | undefined;
let skipDelay: (() => void) | undefined;

export function retryNow(): void {
  skipDelay?.();
}

/** Resolve once the server answers. */
function reconnect(): Promise<void> {
  probing ??= probeUntilAnswered().finally(() => (probing = undefined));
  return probing;
}

async function probeUntilAnswered(): Promise<void> {
  for (let round = 0; ; round++) {
    const delay = delayOf(round);
    if (round > 0) connection.set({ isLost: true, retryAt: Date.now() + delay });
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, delay);
      skipDelay = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    if (await probe()) break;
  }
  skipDelay = undefined;
  connection.set({ isLost: false, retryAt: 0 });
  generation.set(generation.value + 1);
}

function delayOf(round: number): number {
  return (DELAYS_S[Math.min(round, DELAYS_S.length - 1)] ?? 0) * 1000 * (0.75 + Math.random() / 2);
}

/** Return whether the server answers. The response may also say that the session has expired. */
async function probe(): Promise<boolean> {
  try {
    const response = await fetch(`${BASE}session`, { cache: "no-store", signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) });
    if (response.status >= 500) return false;
    if (response.status === 401) await errorOf(response);
    else if (response.ok) session.set((await response.json()) as Session);
    return true;
  } catch {
    return false;
  }
}

// Streams

/** Call `onChunk` with the text of a response until it ends. Throws as `request` does, and if it is silent. */
async function readText(path: string, signal: AbortSignal, onChunk: (text: string) => void): Promise<void> {
  const silence = new AbortController();
  const both = AbortSignal.any([signal, silence.signal]);
  const response = await send(path, { signal: both }, signal);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let watchdog = setTimeout(() => silence.abort(), SILENCE_MS);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(watchdog);
      watchdog = setTimeout(() => silence.abort(), SILENCE_MS);
      onChunk(value);
    }
  } catch (error) {
    throw reportLost(error, signal);
  } finally {
    clearTimeout(watchdog);
    reader.cancel().catch(() => undefined);
  }
}

export type EventHandlers = Record<string, (data: never) => void>;

/**
 * Call the handlers with the server-sent events of a path until the signal. Reconnects after a lost connection, while
 * the tab is visible; the handler `open` is called before each connection. Throws ApiError if the server refuses it.
 * After an event `error`, e.g. because a permission was withdrawn, it waits before it connects again.
 */
export async function followEvents(path: string, signal: AbortSignal, handlers: EventHandlers): Promise<void> {
  for (let failures = 0; !signal.aborted; ) {
    await isVisible.until(Boolean, signal);
    await connection.until((state) => !state.isLost, signal);
    if (signal.aborted) return;
    const hidden = new AbortController();
    const unfollow = isVisible.follow((visible) => visible || hidden.abort());
    const started = Date.now();
    handlers["open"]?.(undefined as never);
    let isRefused = false;
    const emit = (event: string, data: unknown) => {
      isRefused ||= event === "error" && (data as { code?: string }).code !== "session-expired";
      handlers[event]?.(data as never);
    };
    try {
      const both = AbortSignal.any([signal, hidden.signal]);
      await readText(path, both, sseParser(emit));
      // The server ended the stream, e.g. because it stops.
      if (!isRefused) await reconnect();
    } catch (error) {
      if (!isAbort(error) && !(error instanceof LostError)) throw error;
      if (error instanceof LostError) await reconnect();
    } finally {
      unfollow();
    }
    failures = Date.now() - started < SILENCE_MS ? failures + 1 : 0;
    if (isRefused) await sleep(delayOf(DELAYS_S.length), signal);
    else if (failures > 1) await sleep(delayOf(failures - 1), signal);
  }
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

function sseParser(emit: (event: string, data: unknown) => void): (text: string) => void {
  let rest = "";
  return (text) => {
    const blocks = (rest + text).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      let event = "message";
      const data: string[] = [];
      for (const line of block.split("\n")) {
        if (line.startsWith("event:")) event = line.slice(6).trim();
        else if (line.startsWith("data:")) data.push(line.slice(5));
      }
      if (data.length > 0) emit(event, JSON.parse(data.join("\n")));
    }
  };
}

/** Call `onLines` with the JSON lines of a response until it ends. */
export async function readLines<T>(path: string, signal: AbortSignal, onLines: (lines: T[]) => void): Promise<void> {
  let rest = "";
  await readText(path, signal, (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    const parsed = lines.filter((line) => line.trim() !== "").map((line) => JSON.parse(line) as T);
    if (parsed.length > 0) onLines(parsed);
  });
}

export function query(values: Record<string, string | number | undefined | null>): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && value !== null && value !== "") found.set(name, String(value));
  }
  const text = found.toString();
  return text ? `?${text}` : "";
}

/** Return the path of a job below `/api/v1/`. */
export function jobPath(namespace: string, name: string, rest = ""): string {
  return `jobs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}${rest}`;
}

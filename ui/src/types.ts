/** The JSON of `/api/v1`. Times are RFC 3339 strings; times of timelines and points are milliseconds since 1970. */

export type LoginMode = "link" | "token" | "header";
export type ActionName = "stop" | "suspend" | "resume" | "delete" | "run-again";

export interface Session {
  user: string;
  cluster: { name: string; kind: "embedded" | "kubernetes"; server: string };
  namespace: string;
  csrfToken: string;
  expiresAt: string | null;
  version: string;
  mode: LoginMode;
}

export interface Permissions {
  stop: boolean;
  suspend: boolean;
  resume: boolean;
  delete: boolean;
  runAgain: boolean;
  logs: boolean;
  submit?: boolean;
}

export interface JobKey {
  namespace: string;
  name: string;
}

export interface RoleCounts {
  name: string;
  tasks: number;
  running: number;
  succeeded: number;
  failed: number;
  waiting: number;
}

export interface JobRow extends JobKey {
  uid: string;
  state: string;
  verdict: string;
  message: string;
  roles: RoleCounts[];
  retries: { total: number; byClass: Record<string, number> };
  created: string | null;
  started: string | null;
  finished: string | null;
  durationSeconds: number | null;
  progress: { value: number | null; text: string } | null;
  /** Requests of all tasks: cores and bytes. */
  resources: { cpu: number; memory: number; gpus: number };
  attempt: number;
  suspended: boolean;
  exists: boolean;
}

export interface TaskRow {
  role: string;
  index: number;
  state: string;
  node: string;
  podName: string;
  message: string;
}

export interface JobDetail extends JobRow {
  why: string[];
  facts: Record<string, string>;
  spec: string;
  tasks: TaskRow[];
  permissions: Permissions;
  attempts: number[];
  outputs: string;
}

export interface JobsPage {
  items: JobRow[];
  total: number;
  counts: Record<string, number>;
  page: number;
  size: number;
}

export interface RowsEvent {
  upserts: JobRow[];
  deleted: JobKey[];
}

export type Outcome = "pending" | "running" | "succeeded" | "failed" | "stopped" | "lost";
export type Cell = string | number | null;

export interface TimelineData {
  now: number;
  start: number;
  end: number;
  columns: string[];
  bars: Cell[][];
  jobAttempts: {
    attempt: number;
    started: number | null;
    finished: number | null;
    outcome: string;
    reason: string;
  }[];
  events: { time: number; reason: string; message: string; object: string; type: string }[];
  truncated?: number;
}

export interface AttemptDetail {
  task: string;
  attempt: number;
  taskAttempt: number;
  node: string;
  podName: string;
  times: { state: string; time: string | null }[];
  exitCodes: { container: string; code: number | null; signal: string | number | null; reason: string }[];
  class: string;
  decision: string;
  decisionReason: string;
  lastLines: string[];
}

export interface LogLine {
  task: string;
  attempt: number;
  time: string | null;
  text: string;
  /** Whether the next line of this task continues this one. */
  more?: boolean;
}

export interface LogMatch {
  task: string;
  time: string | null;
  text: string;
  line: number;
}

export interface LogSearch {
  total: number;
  byTask: Record<string, number>;
  first: LogMatch[];
  firstError: LogMatch | null;
  scannedBytes: number;
}

export type Point = [number, number];

export interface Metrics {
  usage: {
    available: boolean;
    reason: string;
    series: { task: string; metric: string; unit: string; points: Point[] }[];
  };
  values: { task: string; name: string; points: Point[] }[];
  tasks?: number;
}

export interface Diagnostic {
  severity: string;
  line: number;
  column: number;
  message: string;
}

export interface LintResult {
  jobs: string[];
  diagnostics: Diagnostic[];
}

export interface PlanResult {
  verdict: string;
  timeline: TimelineData;
  requests: unknown;
}

export interface SubmitResult {
  created: JobKey[];
  messages: string[];
}

export interface ActionResult extends JobKey {
  ok: boolean;
  message: string;
  createdName?: string;
}

/** Cores, bytes, and numbers of GPUs and pods. */
export interface NodeResources {
  cpu: number;
  memory: number;
  gpus: number;
  pods?: number | null;
}

export interface ClusterInfo {
  nodes:
    | { name: string; ready: boolean; capacity: NodeResources; requested: NodeResources | null; used: NodeResources | null; pods: number | null }[]
    | null;
  pending: { namespace: string; job: string; task: string; since: string | null; reason: string }[] | null;
  metricsAvailable: boolean;
  reasons?: string[];
}

/** The actions on jobs, in the words of the command line, and their confirmation. */

import { useState } from "preact/hooks";
import { LONG_MS, messageOf, request } from "./api";
import { count } from "./format";
import type { ActionName, ActionResult, JobKey, JobRow, Permissions } from "./types";
import { Dialog, notify, Problem } from "./ui";

const ENDED = ["Succeeded", "Failed", "Stopped", "Deleted"];

interface Action {
  name: ActionName;
  label: string;
  permission: keyof Permissions;
  applies: (job: JobRow) => boolean;
  effect: string;
  isDangerous?: boolean;
}

export const ACTIONS: Action[] = [
  {
    name: "suspend",
    label: "Suspend",
    permission: "suspend",
    applies: (job) => job.exists && !job.suspended && !ENDED.includes(job.state) && job.state !== "Deleting",
    effect: "Their pods are deleted, the jobs are kept. “Resume” starts a new attempt, which does not count as a retry.",
  },
  {
    name: "resume",
    label: "Resume",
    permission: "resume",
    applies: (job) => job.exists && job.suspended && !ENDED.includes(job.state),
    effect: "A new attempt starts the tasks from the beginning. They continue training only from checkpoints that they saved.",
  },
  {
    name: "stop",
    label: "Stop",
    permission: "stop",
    applies: (job) => job.exists && !ENDED.includes(job.state) && job.state !== "Deleting",
    effect: "Their pods are deleted with their grace period. A stopped job cannot be resumed.",
    isDangerous: true,
  },
  {
    name: "delete",
    label: "Delete",
    permission: "delete",
    applies: (job) => job.exists && job.state !== "Deleting",
    effect: "The jobs and the objects they own are deleted: pods, code and companions. Running jobs are stopped.",
    isDangerous: true,
  },
  {
    name: "run-again",
    label: "Run again",
    permission: "runAgain",
    applies: (job) => job.exists,
    effect: "A copy of each job is created and started. Its name is NAME-2, NAME-3, ….",
  },
];

export type PermissionsOf = (job: JobRow) => Permissions | null;

/** One button per action that the viewer may do, and that applies to one of the jobs. */
export function ActionButtons({
  jobs,
  permissionsOf,
  onDone,
}: {
  jobs: JobRow[];
  permissionsOf: PermissionsOf;
  onDone?: (action: ActionName, results: ActionResult[]) => void;
}) {
  const [asked, setAsked] = useState<{ action: Action; jobs: JobRow[] } | null>(null);
  return (
    <>
      {ACTIONS.map((action) => {
        const possible = jobs.filter((job) => action.applies(job) && permissionsOf(job)?.[action.permission]);
        if (possible.length === 0) return null;
        return (
          <button
            key={action.name}
            type="button"
            class={action.isDangerous ? "danger" : ""}
            onClick={() => setAsked({ action, jobs: possible })}
          >
            {action.label}…
          </button>
        );
      })}
      {asked && (
        <Confirmation
          action={asked.action}
          jobs={asked.jobs}
          skipped={jobs.length - asked.jobs.length}
          onClose={() => setAsked(null)}
          onDone={(results) => {
            setAsked(null);
            onDone?.(asked.action.name, results);
          }}
        />
      )}
    </>
  );
}

function Confirmation({
  action,
  jobs,
  skipped,
  onClose,
  onDone,
}: {
  action: Action;
  jobs: JobRow[];
  skipped: number;
  onClose: () => void;
  onDone: (results: ActionResult[]) => void;
}) {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const title = jobs.length === 1 ? `${action.label} ${jobs[0]!.name}?` : `${action.label} ${count(jobs.length, "job")}?`;
  const confirm = async () => {
    setBusy(true);
    try {
      const keys: JobKey[] = jobs.map(({ namespace, name }) => ({ namespace, name }));
      const body = { action: action.name, jobs: keys };
      const { results } = await request<{ results: ActionResult[] }>("jobs/actions", { method: "POST", body, timeout: LONG_MS });
      for (const failed of results.filter((result) => !result.ok)) notify(`${failed.name}: ${failed.message}`, true);
      const done = results.filter((result) => result.ok);
      if (done.length === 1) notify(done[0]!.message || `${action.label}: ${done[0]!.name}`);
      else if (done.length > 1) notify(`${action.label}: ${count(done.length, "job")}`);
      onDone(results);
    } catch (error) {
      setBusy(false);
      setProblem(messageOf(error) ?? "The server does not answer.");
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <p>{action.effect}</p>
      <ul class="names">
        {jobs.map((job) => (
          <li key={job.namespace + job.name}>
            {job.namespace}/{job.name}
          </li>
        ))}
      </ul>
      {skipped > 0 && <p class="muted">{count(skipped, "selected job")} left out: the action does not apply or is not allowed.</p>}
      <Problem text={problem} />
      <div class="buttons">
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button type="button" class={action.isDangerous ? "primary danger" : "primary"} disabled={isBusy} onClick={() => void confirm()}>
          {action.label}
        </button>
      </div>
    </Dialog>
  );
}

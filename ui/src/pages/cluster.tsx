/** The nodes, what they have free, and which tasks wait for what. */

import { useEffect } from "preact/hooks";
import { request } from "../api";
import { age, bytes, count, visible } from "../format";
import { href } from "../router";
import { Status } from "../status";
import type { ClusterInfo, NodeResources } from "../types";
import { Meter, Problem, useLoaded, useNow, useTitle } from "../ui";

const REFRESH_MS = 5_000;
const MAX_ROWS = 500;
const RESOURCES = [
  ["cpu", "CPU"],
  ["memory", "Memory"],
  ["gpus", "GPUs"],
] as const;
type Resource = (typeof RESOURCES)[number][0];

export function Cluster() {
  useTitle("Cluster");
  const { data, error, reload } = useLoaded((signal) => request<ClusterInfo>("cluster", { signal }), []);
  const now = useNow(1000);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || reload(), REFRESH_MS);
    return () => clearInterval(timer);
  }, [reload]);
  return (
    <>
      <h1>Cluster</h1>
      <Problem text={error} retry={reload} />
      {!data && !error && <p>Loading…</p>}
      {data?.reasons?.map((reason) => (
        <p key={reason} class="muted">
          {reason}
        </p>
      ))}
      {data?.nodes && <Nodes nodes={data.nodes} />}
      {data?.pending && <Pending pending={data.pending} now={now} />}
    </>
  );
}

function Nodes({ nodes }: { nodes: NonNullable<ClusterInfo["nodes"]> }) {
  return (
    <section aria-labelledby="nodes">
      <h2 id="nodes">{count(nodes.length, "node")}</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Nodes">
        <table>
          <thead>
            <tr>
              <th>Node</th>
              <th>State</th>
              <th>Pods</th>
              {RESOURCES.map(([name, label]) => (
                <th key={name}>{label}: free of capacity, used</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {nodes.slice(0, MAX_ROWS).map((node) => (
              <tr key={node.name}>
                <td>{node.name}</td>
                <td>
                  <Status state={node.ready ? "Ready" : "Not ready"} />
                </td>
                <td class="number">
                  {node.pods ?? "–"}
                  {node.capacity.pods ? ` of ${node.capacity.pods}` : ""}
                </td>
                {RESOURCES.map(([name, label]) => (
                  <td key={name} class="number">
                    <Amount resource={name} label={`${label} of ${node.name}`} node={node} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {nodes.length > MAX_ROWS && <p class="muted">{count(nodes.length - MAX_ROWS, "more node")} not shown.</p>}
    </section>
  );
}

function Amount({
  resource,
  label,
  node: { capacity, requested, used },
}: {
  resource: Resource;
  label: string;
  node: { capacity: NodeResources; requested: NodeResources | null; used: NodeResources | null };
}) {
  const total = capacity[resource];
  if (!total) return <>–</>;
  const format = (value: number) => (resource === "memory" ? bytes(value) : String(Number(value.toPrecision(3))));
  return (
    <>
      {requested && <Meter value={requested[resource] / total} label={`${label}: requested share`} />}{" "}
      {requested && `${format(Math.max(0, total - requested[resource]))} free of `}
      {format(total)}
      {used && resource !== "gpus" && <span class="muted">, {format(used[resource])} used</span>}
    </>
  );
}

function Pending({ pending, now }: { pending: NonNullable<ClusterInfo["pending"]>; now: number }) {
  return (
    <section aria-labelledby="pending">
      <h2 id="pending">{pending.length === 0 ? "No task is waiting" : `${count(pending.length, "task")} waiting`}</h2>
      {pending.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Waiting tasks">
          <table>
            <thead>
              <tr>
                <th>Job</th>
                <th>Task</th>
                <th>For</th>
                <th>Reason</th>
              </tr>
            </thead>
            <tbody>
              {pending.slice(0, MAX_ROWS).map(({ namespace, job, task, since, reason }) => (
                <tr key={`${namespace}/${job}/${task}`}>
                  <td>
                    <a href={href(["jobs", namespace, job])}>
                      {namespace}/{job}
                    </a>
                  </td>
                  <td>{task}</td>
                  <td class="number">{age(since, now)}</td>
                  <td class="text">{visible(reason)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

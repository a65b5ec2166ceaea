/** Paste or drop a file, see its errors at the lines, simulate failures, and submit it. */

import { useEffect, useRef, useState } from "preact/hooks";
import { LONG_MS, messageOf, query as queryOf, request } from "../api";
import { NamespaceSelect } from "../app";
import { count } from "../format";
import { href } from "../router";
import { Timeline } from "../timeline/timeline";
import type { Diagnostic, LintResult, Permissions, PlanResult, SubmitResult } from "../types";
import { Problem, useLoaded, useTitle } from "../ui";

const LINT_DELAY_MS = 400;
const LINE_HEIGHT = 18;
const MAX_FILE_BYTES = 1024 * 1024;
const EXAMPLE = `name: hello
roles:
  worker:
    tasks: 2
command: python -c 'print("hello")'
`;

export function Submit({ namespace }: { namespace: string }) {
  useTitle("Submit");
  const [text, setText] = useState("");
  const [name, setName] = useState("job.yaml");
  const [problem, setProblem] = useState<string | null>(null);
  const [isDropping, setDropping] = useState(false);
  const lint = useLint(text, name);
  const permissions = useLoaded((signal) => request<Permissions>(`permissions${queryOf({ namespace })}`, { signal }), [namespace]);

  const read = async (file: File | undefined) => {
    if (!file) return;
    if (file.size > MAX_FILE_BYTES) return setProblem(`${file.name} has more than 1 MiB. Is it a job file?`);
    setText(await file.text());
    setName(file.name);
    setProblem(null);
  };
  return (
    <>
      <div class="title">
        <h1>Submit</h1>
        <NamespaceSelect value={namespace} hasAll={false} />
      </div>
      <div class="toolbar">
        <label class="button">
          Choose a file
          <input
            type="file"
            class="hidden-file"
            accept=".yaml,.yml,.json"
            onChange={(event) => {
              void read(event.currentTarget.files?.[0]);
              event.currentTarget.value = "";
            }}
          />
        </label>
        <span class="muted">or drop it below, or paste its text.</span>
        {text === "" && (
          <button type="button" onClick={() => setText(EXAMPLE)}>
            Insert an example
          </button>
        )}
      </div>
      <Problem text={problem} />
      <div
        class={isDropping ? "dropping" : ""}
        onDragOver={(event) => {
          event.preventDefault();
          setDropping(true);
        }}
        onDragLeave={() => setDropping(false)}
        onDrop={(event) => {
          event.preventDefault();
          setDropping(false);
          void read(event.dataTransfer?.files[0]);
        }}
      >
        <Editor text={text} onText={setText} diagnostics={lint.result?.diagnostics ?? []} />
      </div>
      {text.trim() !== "" && (
        <>
          <LintResultView text={text} {...lint} />
          <Plan text={text} namespace={namespace} jobs={lint.result?.jobs ?? []} />
          <SubmitForm text={text} namespace={namespace} permissions={permissions.data} lint={lint.result} />
        </>
      )}
    </>
  );
}

// Lint

interface Lint {
  result: LintResult | null;
  error: string | null;
}

function useLint(text: string, name: string): Lint {
  const [state, setState] = useState<Lint>({ result: null, error: null });
  useEffect(() => {
    if (text.trim() === "") {
      setState({ result: null, error: null });
      return undefined;
    }
    const abort = new AbortController();
    const timer = setTimeout(() => {
      request<LintResult>("files/lint", { method: "POST", body: { text, name }, signal: abort.signal }).then(
        (result) => setState({ result, error: null }),
        (error: unknown) => abort.signal.aborted || setState({ result: null, error: messageOf(error) }),
      );
    }, LINT_DELAY_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text, name]);
  return state;
}

function isError({ severity }: Diagnostic): boolean {
  return severity.toLowerCase() === "error";
}

function LintResultView({ text, result, error }: Lint & { text: string }) {
  const goTo = (line: number) => {
    const editor = document.querySelector<HTMLTextAreaElement>(".editor textarea");
    if (!editor) return;
    const lines = text.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
    editor.focus();
    editor.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
  };
  return (
    <section class="lint" aria-label="Check of the file">
      <Problem text={error} />
      <p role="status">
        {!result && !error && "Checking…"}
        {result &&
          (result.diagnostics.length === 0
            ? `No problem found. ${count(result.jobs.length, "job")}: ${result.jobs.join(", ")}`
            : count(result.diagnostics.length, "problem"))}
      </p>
      <ul>
        {result?.diagnostics.map((diagnostic, position) => (
          <li key={position} class={isError(diagnostic) ? "tone-bad" : "tone-waiting"}>
            <button type="button" class="plain" onClick={() => goTo(diagnostic.line)}>
              Line {diagnostic.line}
            </button>{" "}
            <strong>{diagnostic.severity}</strong>: {diagnostic.message}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Editor({
  text,
  onText,
  diagnostics,
}: {
  text: string;
  onText: (text: string) => void;
  diagnostics: Diagnostic[];
}) {
  const gutter = useRef<HTMLDivElement>(null);
  const lines = Math.max(text.split("\n").length, 1);
  const marks = new Map<number, Diagnostic[]>();
  for (const diagnostic of diagnostics) marks.set(diagnostic.line, [...(marks.get(diagnostic.line) ?? []), diagnostic]);
  return (
    <div class="editor" style={{ height: `${LINE_HEIGHT * Math.min(Math.max(lines + 2, 10), 24) + 12}px` }}>
      <div class="gutter" ref={gutter} aria-hidden="true">
        {Array.from({ length: lines }, (_, index) => {
          const found = marks.get(index + 1);
          const tone = found ? (found.some(isError) ? "mark-error" : "mark-warning") : "";
          return (
            <div key={index} class={tone} title={found?.map(({ message }) => message).join("\n")}>
              {found ? (found.some(isError) ? "✕ " : "! ") : ""}
              {index + 1}
            </div>
          );
        })}
      </div>
      <textarea
        aria-label="Job file"
        spellcheck={false}
        autocapitalize="off"
        autocomplete="off"
        wrap="off"
        placeholder="Paste a job file, a Framework, or a job of another system, e.g. a TFJob"
        value={text}
        onInput={(event) => onText(event.currentTarget.value)}
        onScroll={(event) => {
          gutter.current!.scrollTop = event.currentTarget.scrollTop;
        }}
      />
    </div>
  );
}

// Plan

function Plan({ text, namespace, jobs }: { text: string; namespace: string; jobs: string[] }) {
  const [faults, setFaults] = useState("");
  const [chosen, setChosen] = useState("");
  const job = jobs.includes(chosen) ? chosen : "";
  const [plan, setPlan] = useState<{ text: string; result: PlanResult } | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const simulate = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const body = { text, faults: faults.split("\n").map((fault) => fault.trim()).filter(Boolean), namespace, job };
      setPlan({ text, result: await request<PlanResult>("files/plan", { method: "POST", body, timeout: LONG_MS }) });
      setProblem(null);
    } catch (error) {
      setPlan(null);
      setProblem(messageOf(error) ?? "The server does not answer.");
    } finally {
      setBusy(false);
    }
  };
  return (
    <section aria-labelledby="plan">
      <h2 id="plan">Simulate failures</h2>
      <form class="plan" onSubmit={(event) => void simulate(event)}>
        <label class="field stacked">
          Faults, one per line
          <textarea
            rows={3}
            spellcheck={false}
            placeholder={"kill worker-1 after 5s\nexit 3 worker-0 after 1m every time"}
            value={faults}
            onInput={(event) => setFaults(event.currentTarget.value)}
          />
        </label>
        {jobs.length > 1 && (
          <label class="field">
            Job{" "}
            <select value={job || jobs[0]} onChange={(event) => setChosen(event.currentTarget.value)}>
              {jobs.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </label>
        )}
        <button type="submit" disabled={isBusy}>
          Simulate
        </button>
      </form>
      <Problem text={problem} />
      {plan && (
        <>
          <p class="lead" role="status">
            {plan.result.verdict}
            {plan.text !== text && <span class="muted"> (The file has changed since.)</span>}
          </p>
          <Timeline data={plan.result.timeline} />
        </>
      )}
    </section>
  );
}

// Submit

function SubmitForm({
  text,
  namespace,
  permissions,
  lint,
}: {
  text: string;
  namespace: string;
  permissions: Permissions | null;
  lint: LintResult | null;
}) {
  const [rerun, setRerun] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const [done, setDone] = useState<SubmitResult | null>(null);
  if (permissions && permissions.submit === false) {
    return <p class="muted">You may not submit jobs in the namespace {namespace}.</p>;
  }
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    setDone(null);
    try {
      setDone(await request<SubmitResult>("files/submit", { method: "POST", body: { text, namespace, rerun }, timeout: LONG_MS }));
    } catch (error) {
      setProblem(messageOf(error) ?? "The server does not answer. Look at the list of jobs before you submit again.");
    } finally {
      setBusy(false);
    }
  };
  const hasErrors = lint?.diagnostics.some(isError) ?? false;
  return (
    <section aria-labelledby="submission">
      <h2 id="submission">Submit to {namespace}</h2>
      <form onSubmit={(event) => void submit(event)}>
        <label class="field">
          <input type="checkbox" checked={rerun} onChange={(event) => setRerun(event.currentTarget.checked)} /> Replace a finished
          job of the same name
        </label>
        <div class="buttons">
          <button type="submit" class="primary" disabled={isBusy || hasErrors || !permissions}>
            {isBusy ? "Submitting…" : "Submit"}
          </button>
          {hasErrors && <span class="muted">Fix the errors first.</span>}
        </div>
      </form>
      <Problem text={problem} />
      {done && (
        <div role="status">
          {done.created.map((job) => (
            <p key={job.name}>
              Submitted <a href={href(["jobs", job.namespace, job.name])}>{job.name}</a>.
            </p>
          ))}
          {done.messages.map((message) => (
            <p key={message} class="muted">
              {message}
            </p>
          ))}
        </div>
      )}
    </section>
  );
}

/** The frame around all pages: header, banner, login. */

import { useEffect, useState } from "preact/hooks";
import { connection, loadSession, logOut, login, request, retryNow, session } from "./api";
import { Cluster } from "./pages/cluster";
import { Job } from "./pages/job";
import { Jobs } from "./pages/jobs";
import { Login } from "./pages/login";
import { Submit } from "./pages/submit";
import { href, setQuery, useRoute, type Route } from "./router";
import { useStore } from "./store";
import { theme, type Theme } from "./theme";
import type { Session } from "./types";
import { Dialog, Notices, notify, useLoaded, useNow } from "./ui";

/** Not the name of a namespace. */
const OTHER = "…";
const PAGES = ["jobs", "submit", "cluster"] as const;
const TITLES = { jobs: "Jobs", submit: "Submit", cluster: "Cluster" };
const KEYS: [string, string][] = [
  ["/", "Focus the filter or the search"],
  ["g j", "Go to the jobs"],
  ["g s", "Go to the page for submitting"],
  ["g c", "Go to the cluster"],
  ["↑ ↓", "Timeline: previous or next task"],
  ["← →", "Timeline: previous or next attempt of the task"],
  ["Home End", "Timeline: first or last task"],
  ["Enter", "Timeline: show the details of the attempt"],
  ["+ − 0", "Timeline: zoom in, zoom out, show all"],
  ["Shift ← →", "Timeline: move the visible period"],
  ["Esc", "Close a dialog or the details"],
  ["?", "Show this list"],
];

export function App() {
  const current = useStore(session);
  const isLoggedOut = useStore(login);
  const [isLoading, setLoading] = useState(true);
  useEffect(() => {
    void loadSession().finally(() => setLoading(false));
  }, []);
  if (isLoggedOut)
    return (
      <>
        <LostBanner />
        <Login {...isLoggedOut} />
      </>
    );
  if (!current)
    return (
      <>
        <LostBanner />
        <main class="loading">{isLoading ? <p>Loading…</p> : <h1>Windlass</h1>}</main>
      </>
    );
  return <Frame session={current} />;
}

function Frame({ session: current }: { session: Session }) {
  const route = useRoute();
  const [hasHelp, setHelp] = useState(false);
  useShortcuts(() => setHelp(true));
  const page = route.path[0] ?? "jobs";
  const namespace = route.query.get("ns") ?? (route.path[0] === "jobs" && route.path[1]) ?? "";
  const chosen = namespace || current.namespace;
  return (
    <>
      <a class="skip" href="#main" onClick={skipToMain}>
        Skip to the content
      </a>
      <header class="top">
        <a class="brand" href={href([])}>
          <img src="./favicon.svg" alt="" width="22" height="22" /> Windlass
        </a>
        <nav aria-label="Pages">
          {PAGES.map((name) => (
            <a
              key={name}
              href={href([name], { ns: chosen === current.namespace ? "" : chosen })}
              aria-current={page === name ? "page" : undefined}
            >
              {TITLES[name]}
            </a>
          ))}
        </nav>
        <span class="spacer" />
        <span class="cluster" title={current.cluster.server}>
          {current.cluster.kind === "embedded" ? "Embedded cluster" : current.cluster.name}
          <span class="user"> · {current.user}</span>
        </span>
        <ThemeSwitch />
        <button type="button" class="plain" aria-label="Keyboard shortcuts" onClick={() => setHelp(true)}>
          ?
        </button>
        {current.mode === "token" && (
          <button type="button" onClick={() => logOut().catch((error: Error) => notify(error.message, true))}>
            Log out
          </button>
        )}
      </header>
      <LostBanner />
      <main id="main" tabIndex={-1}>
        <Page route={route} session={current} namespace={chosen} />
      </main>
      <Notices />
      {hasHelp && (
        <Dialog title="Keyboard shortcuts" onClose={() => setHelp(false)}>
          <dl class="facts">
            {KEYS.map(([keys, effect]) => (
              <>
                <dt>
                  <kbd>{keys}</kbd>
                </dt>
                <dd>{effect}</dd>
              </>
            ))}
          </dl>
          <div class="buttons">
            <button type="button" onClick={() => setHelp(false)}>
              Close
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}

function Page({ route, session: current, namespace }: { route: Route; session: Session; namespace: string }) {
  const [page = "jobs", jobNamespace, name] = route.path;
  if (page === "jobs" && jobNamespace && name) {
    const tab = route.path[3] ?? "";
    return <Job key={`${jobNamespace}/${name}`} namespace={jobNamespace} name={name} tab={tab} query={route.query} />;
  }
  if (page === "jobs") return <Jobs namespace={namespace} query={route.query} />;
  if (page === "submit") return <Submit namespace={namespace === "*" ? current.namespace : namespace} />;
  if (page === "cluster") return <Cluster />;
  return (
    <>
      <h1>Not found</h1>
      <p>
        There is no page “{route.path.join("/")}”. <a href={href([])}>Show the jobs</a>
      </p>
    </>
  );
}

function skipToMain(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function ThemeSwitch() {
  const current = useStore(theme);
  return (
    <select
      class="plain"
      aria-label="Colours"
      value={current}
      onChange={(event) => theme.set(event.currentTarget.value as Theme)}
    >
      <option value="system">System</option>
      <option value="light">Light</option>
      <option value="dark">Dark</option>
    </select>
  );
}

function LostBanner() {
  const state = useStore(connection);
  const now = useNow(500, state.isLost);
  if (!state.isLost) return null;
  const seconds = Math.max(0, Math.ceil((state.retryAt - now) / 1000));
  return (
    <div class="banner">
      <span role="alert">The server does not answer. What you see may be out of date.</span>{" "}
      <span>{seconds > 0 ? `Retrying in ${seconds} s.` : "Retrying…"}</span>{" "}
      <button type="button" onClick={retryNow}>
        Retry now
      </button>
    </div>
  );
}

export function NamespaceSelect({ value, hasAll }: { value: string; hasAll: boolean }) {
  const { data } = useLoaded((signal) => request<{ items: string[]; all: boolean }>("namespaces", { signal }), []);
  const names = new Set([...(data?.items ?? []), ...(value === "*" ? [] : [value])]);
  const [isTyping, setTyping] = useState(false);
  const choose = (name: string) => {
    setTyping(name === OTHER);
    if (name !== OTHER && name !== "") setQuery({ ns: name, page: "" }, true);
  };
  // Viewers who may not list namespaces know the names of theirs.
  if (isTyping)
    return (
      <label class="field">
        Namespace{" "}
        <input
          type="text"
          placeholder="name, Enter"
          ref={(field) => field?.focus()}
          onKeyDown={(event) => event.key === "Enter" && choose(event.currentTarget.value.trim())}
          onBlur={(event) => (event.currentTarget.value ? choose(event.currentTarget.value.trim()) : setTyping(false))}
        />
      </label>
    );
  return (
    <label class="field">
      Namespace{" "}
      <select value={value} onChange={(event) => choose(event.currentTarget.value)}>
        {hasAll && (data?.all || value === "*") && <option value="*">All namespaces</option>}
        {[...names].sort().map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
        <option value={OTHER}>Other…</option>
      </select>
    </label>
  );
}

/** `g` and a letter go to a page, `/` to the filter, `?` shows the list. Not while the user types into a field. */
function useShortcuts(showHelp: () => void): void {
  useEffect(() => {
    let isGoing = false;
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.closest("dialog") !== null;
      if (isTyping || event.ctrlKey || event.altKey || event.metaKey) return;
      const wasGoing = isGoing;
      isGoing = event.key === "g";
      const page = wasGoing && PAGES.find((name) => name.startsWith(event.key));
      if (page) location.hash = href([page]);
      else if (event.key === "?") showHelp();
      else if (event.key === "/") {
        const field = document.querySelector<HTMLInputElement>("main input[type=search]");
        if (!field) return;
        field.focus();
        event.preventDefault();
      }
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
}

/** Small components and hooks that several pages use. */

import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { generation, messageOf } from "./api";
import { Store, useStore } from "./store";

// Loading

export interface Loaded<T> {
  data: T | null;
  error: string | null;
  reload: () => void;
}

/**
 * Load data, and load it again when `keys` change, after a lost connection, and on `reload`. While it loads again, the
 * old data stays, unless `keys` changed.
 */
export function useLoaded<T>(load: (signal: AbortSignal) => Promise<T>, keys: unknown[]): Loaded<T> {
  const [state, setState] = useState<{ key: string; data: T | null; error: string | null }>({
    key: "",
    data: null,
    error: null,
  });
  const [round, setRound] = useState(0);
  const epoch = useStore(generation);
  const key = JSON.stringify(keys);
  // A reload does not interrupt a load: frequent ones would keep a slow load from ever ending.
  const isLoading = useRef(false);
  const isStale = useRef(false);
  useEffect(() => {
    const abort = new AbortController();
    isLoading.current = true;
    isStale.current = false;
    const ended = (state: () => void) => {
      if (abort.signal.aborted) return;
      isLoading.current = false;
      state();
      if (isStale.current) setRound((number) => number + 1);
    };
    load(abort.signal).then(
      (data) => ended(() => setState({ key, data, error: null })),
      (error: unknown) =>
        ended(() => {
          const message = messageOf(error);
          if (message !== null) setState((old) => ({ key, data: old.key === key ? old.data : null, error: message }));
        }),
    );
    return () => abort.abort();
  }, [key, round, epoch]);
  const reload = useCallback(() => {
    if (isLoading.current) isStale.current = true;
    else setRound((number) => number + 1);
  }, []);
  const isCurrent = state.key === key;
  return { data: isCurrent ? state.data : null, error: isCurrent ? state.error : null, reload };
}

/** Return the current time, updated every `ms` milliseconds while the tab is visible. */
export function useNow(ms: number, isActive = true): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!isActive) return undefined;
    setNow(Date.now());
    const timer = setInterval(() => document.hidden || setNow(Date.now()), ms);
    return () => clearInterval(timer);
  }, [ms, isActive]);
  return now;
}

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Windlass`;
  }, [title]);
}

// Notices

interface Notice {
  id: number;
  text: string;
  isError: boolean;
}

const NOTICE_MS = 8_000;
const notices = new Store<Notice[]>([]);
let lastNotice = 0;

export function notify(text: string, isError = false): void {
  const id = ++lastNotice;
  notices.set([...notices.value, { id, text, isError }]);
  if (!isError) setTimeout(() => dismiss(id), NOTICE_MS);
}

function dismiss(id: number): void {
  notices.set(notices.value.filter((notice) => notice.id !== id));
}

export function Notices() {
  return (
    <div class="notices" role="status">
      {useStore(notices).map((notice) => (
        <div key={notice.id} class={notice.isError ? "notice error" : "notice"}>
          <span>{notice.text}</span>
          <button type="button" class="plain" aria-label="Dismiss" onClick={() => dismiss(notice.id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}

export function Problem({ text, retry }: { text: string | null; retry?: () => void }) {
  if (text === null) return null;
  return (
    <p class="problem" role="alert">
      {text} {retry && <button type="button" onClick={retry}>Retry</button>}
    </p>
  );
}

/** A closed section. Its contents are drawn while it is open. */
export function Unfolding({ title, children }: { title: string; children: () => ComponentChildren }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{title}</summary>
      {isOpen && children()}
    </details>
  );
}

// Dialogs

/** A modal dialog. Escape and the browser's focus handling come from the element itself. */
export function Dialog({
  title,
  onClose,
  children,
}: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
}) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current!;
    const before = document.activeElement;
    dialog.showModal();
    return () => {
      dialog.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={element}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <h2>{title}</h2>
      {children}
    </dialog>
  );
}

// Windowed lists

export interface Window {
  first: number;
  last: number;
}

/** Return which rows of a scrolled list are visible, with some more on both sides. */
export function useWindow(element: { current: HTMLElement | null }, rowHeight: number, rows: number): Window {
  const [range, setRange] = useState<Window>({ first: 0, last: 60 });
  useEffect(() => {
    const scroller = element.current;
    if (!scroller) return undefined;
    const update = () => {
      const first = Math.max(0, Math.floor(scroller.scrollTop / rowHeight) - 8);
      const last = Math.ceil((scroller.scrollTop + scroller.clientHeight) / rowHeight) + 8;
      setRange((old) => (old.first === first && old.last === last ? old : { first, last }));
    };
    update();
    scroller.addEventListener("scroll", update, { passive: true });
    const observer = new ResizeObserver(update);
    observer.observe(scroller);
    return () => {
      scroller.removeEventListener("scroll", update);
      observer.disconnect();
    };
  }, [element.current, rowHeight, rows]);
  return { first: Math.min(range.first, Math.max(0, rows - 1)), last: Math.min(range.last, rows) };
}

// Bars

export function Meter({ value, label }: { value: number; label: string }) {
  return (
    <span class="meter" role="meter" aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(value * 100)} aria-label={label}>
      <span style={{ width: `${Math.min(100, Math.max(0, value * 100))}%` }} />
    </span>
  );
}

/** The state of the page in the fragment of the URL: `#/jobs/default/digits/logs?task=worker`. */

import { Store, useStore } from "./store";

export interface Route {
  path: string[];
  query: URLSearchParams;
}

function parse(): Route {
  const [path = "", query = ""] = location.hash.replace(/^#/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const route = new Store<Route>(parse());
window.addEventListener("hashchange", () => route.set(parse()));

export function href(path: string[], query: Record<string, string> = {}): string {
  const text = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "")).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function go(path: string[], query: Record<string, string> = {}): void {
  location.hash = href(path, query);
}

/** Change parameters of the URL; an empty value removes one. Without `isStep`, the change adds no step to "Back". */
export function setQuery(changes: Record<string, string>, isStep = false): void {
  const { path, query } = parse();
  for (const [name, value] of Object.entries(changes)) {
    if (value === "") query.delete(name);
    else query.set(name, value);
  }
  const target = href(path, Object.fromEntries(query));
  if (target === location.hash) return;
  if (isStep) history.pushState(null, "", target);
  else history.replaceState(null, "", target);
  route.set(parse());
}

export function useRoute(): Route {
  return useStore(route);
}

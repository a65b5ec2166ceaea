/** Light and dark: the setting of the system, or the one chosen in the header. */

import { Store } from "./store";

export type Theme = "system" | "light" | "dark";
const KEY = "windlass-theme";

function stored(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system"; // Storage is disabled.
  }
}

export const theme = new Store<Theme>(stored());
/** Changes whenever the colours may have changed. */
export const colours = new Store(0);

function apply(value: Theme): void {
  document.documentElement.dataset["theme"] = value;
  colours.set(colours.value + 1);
}

apply(theme.value);
theme.follow((value) => {
  try {
    if (value === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, value);
  } catch {
    // Storage is disabled; the choice lasts until the page is loaded again.
  }
  apply(value);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => colours.set(colours.value + 1));

/** Return the current value of a colour variable, for canvases. */
export function colour(variable: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${variable})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

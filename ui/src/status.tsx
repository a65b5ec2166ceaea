/** States as a shape, a colour and a word: the colour alone never carries the meaning. */

type Shape = "check" | "cross" | "play" | "clock" | "pause" | "square" | "retry" | "bar" | "unknown" | "ending";

const SHAPES: Record<string, [Shape, string]> = {
  succeeded: ["check", "good"],
  failed: ["cross", "bad"],
  running: ["play", "busy"],
  pending: ["clock", "waiting"],
  submitted: ["clock", "waiting"],
  blocked: ["bar", "bad"],
  held: ["pause", "idle"],
  suspended: ["pause", "idle"],
  stopping: ["ending", "waiting"],
  deleting: ["ending", "waiting"],
  retrying: ["retry", "waiting"],
  stopped: ["square", "idle"],
  ended: ["square", "idle"],
  deleted: ["square", "idle"],
  lost: ["unknown", "bad"],
  ready: ["check", "good"],
  "not ready": ["cross", "bad"],
};

const PATHS: Record<Shape, string> = {
  check: "M2 8.5l4 4 8-9",
  cross: "M3 3l10 10M13 3L3 13",
  play: "M4 2.5v11l9.5-5.5z",
  clock: "M8 1.5a6.5 6.5 0 1 0 0 13a6.5 6.5 0 1 0 0-13M8 4v4.2l3 1.8",
  pause: "M5 3v10M11 3v10",
  square: "M3 3h10v10H3z",
  retry: "M13.5 8a5.5 5.5 0 1 1-2-4.3M12 0.8v3.4H8.6",
  bar: "M8 1.5a6.5 6.5 0 1 0 0 13a6.5 6.5 0 1 0 0-13M4.5 8h7",
  unknown: "M5 5.5a3 3 0 1 1 4.5 2.5c-1 .6-1.5 1-1.5 2M8 13v.6",
  ending: "M3 3h10v10H3zM3 13L13 3",
};

export function toneOf(state: string): string {
  return SHAPES[state.toLowerCase()]?.[1] ?? "idle";
}

export function Glyph({ state }: { state: string }) {
  const [shape, tone] = SHAPES[state.toLowerCase()] ?? ["unknown", "idle"];
  return (
    <svg class={`glyph tone-${tone}`} viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
      <path d={PATHS[shape]} class={shape === "play" ? "filled" : ""} />
    </svg>
  );
}

export function Status({ state }: { state: string }) {
  return (
    <span class={`status tone-${toneOf(state)}`} data-state={state}>
      <Glyph state={state} />
      {state}
    </span>
  );
}

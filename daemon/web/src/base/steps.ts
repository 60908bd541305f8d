// Steps of a run: ranges, and how fast they pass.
import type {Run, Step} from "./api";

/** A range of steps, both ends included. */
export interface Steps {
  first: number;
  last: number;
}

/** First and last step that any attempt has closed; null before the first. */
export function stepsOf(run: Run): Steps|null {
  let first = Infinity;
  let last = -Infinity;
  for (const attempt of run.attempts) {
    if (attempt.first_step === undefined || attempt.last_step === undefined) continue;
    first = Math.min(first, Number(attempt.first_step));
    last = Math.max(last, Number(attempt.last_step));
  }
  return first <= last ? {first, last} : null;
}

export const isLive = (run: Run|null): boolean => run?.state === "RUN_STATE_LIVE";

/** How fast a run goes and when its newest step closed, from its last steps. */
export interface Pace {
  stepsPerSecond: number|null;
  newestNs: string;  // "0": unknown
}

export function paceOf(rows: Step[]): Pace {
  const [from, to] = [rows[0], rows[rows.length - 1]];
  if (from === undefined || to === undefined) return {stepsPerSecond: null, newestNs: "0"};
  const seconds = (Number(to.time_unix_ns) - Number(from.time_unix_ns)) / 1e9;
  return {
    stepsPerSecond: seconds > 0 ? (Number(to.step) - Number(from.step)) / seconds : null,
    newestNs: to.time_unix_ns
  };
}

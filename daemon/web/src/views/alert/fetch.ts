// An alert and what belongs to it: when it began by the clock, and the silences in force.
import {Alert, get, Silence, Step} from "../../base/api";

const LISTED_MOST = 100_000;

export async function findAlert(
    run: string|null, id: string|null, signal: AbortSignal): Promise<Alert|null> {
  const {alerts} =
      await get<{alerts: Alert[]}>("alerts", {run: run ?? undefined, limit: LISTED_MOST}, signal);
  return alerts.find((one) => one.id === id) ?? null;
}

export interface Context {
  beganNs: string;  // "0": unknown
  silences: Silence[];
}

export async function loadContext(alert: Alert, signal: AbortSignal): Promise<Context> {
  const at = alert.pending_step;
  const [{steps}, {silences}] = await Promise.all([
    get<{steps: Step[]}>("steps", {run: alert.run, first_step: at, last_step: at}, signal),
    get<{silences: Silence[]}>("silences", {}, signal)
  ]);
  return {beganNs: steps[0]?.time_unix_ns ?? "0", silences};
}

// The alerts of all runs or of one, with what its timeline needs.
import {Alert, get, Run, RunEvent} from "../../base/api";
import {findRun, isRun, NoRun} from "../../base/runs";

export interface AllAlerts {
  alerts: Alert[];
  runs: number;  // that there are
}

export interface OwnAlerts {
  run: Run;
  alerts: Alert[];
  events: RunEvent[];
}

export async function loadAll(signal: AbortSignal): Promise<AllAlerts> {
  const [{alerts}, {runs}] = await Promise.all(
      [get<{alerts: Alert[]}>("alerts", {}, signal), get<{runs: Run[]}>("runs", {}, signal)]);
  return {alerts, runs: runs.length};
}

export async function loadOwn(name: string, signal: AbortSignal): Promise<OwnAlerts|NoRun> {
  const run = await findRun(name, signal);
  if (!isRun(run)) return run;
  const [{alerts}, {events}] = await Promise.all([
    get<{alerts: Alert[]}>("alerts", {run: name}, signal),
    get<{events: RunEvent[]}>("events", {run: name}, signal)
  ]);
  return {run, alerts, events};
}

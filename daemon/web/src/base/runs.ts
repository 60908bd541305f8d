// A run that an address names: found, with its alerts, its series and its pace.
import {Alert, ApiError, get, Run, Series, Step} from "./api";
import {listIndicators} from "./series";
import {Pace, paceOf} from "./steps";

/** At most so many alerts stand behind the plots of a run: those that fire and the worst first. */
export const ALERTS_MOST = 300;

/** A run that was asked for and does not exist, with those that do. */
export interface NoRun {
  asked: string|null;
  there: Run[];
}

export function isRun(found: Run|NoRun): found is Run {
  return "attempts" in found;
}

export async function findRun(asked: string|null, signal: AbortSignal): Promise<Run|NoRun> {
  if (asked === null || asked === "") return {asked: null, there: []};
  try {
    const {run} = await get<{run: Run}>(`runs/${encodeURIComponent(asked)}`, {}, signal);
    return run;
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
    const {runs} = await get<{runs: Run[]}>("runs", {}, signal);
    return {asked, there: runs};
  }
}

const PACE_STEPS = 20;

export async function loadPace(run: Run, signal: AbortSignal): Promise<Pace> {
  if (run.last_step === undefined) return paceOf([]);
  const first = Math.max(Number(run.last_step) - PACE_STEPS, 0);
  const {steps} = await get<{steps: Step[]}>("steps", {run: run.name, first_step: first}, signal);
  return paceOf(steps);
}

/** A run as several views look at it: found again in each round, with its alerts and its series. */
export class WatchedRun {
  run: Run|null = null;
  alerts: Alert[] = [];
  series = new Map<string, Series[]>();  // by indicator
  private seriesAt = "";

  constructor(readonly name: string|null) {}

  /** The run, when `more` of it and all the rest is known; or that there is none. */
  async look(signal: AbortSignal, more?: (run: Run) => Promise<void>): Promise<Run|NoRun> {
    const found = await findRun(this.name, signal);
    if (!isRun(found)) return found;
    const [judged, listed] = await Promise.all([
      get<{alerts: Alert[]}>("alerts", {run: found.name, limit: ALERTS_MOST}, signal),
      found.series === this.seriesAt ? this.series : listIndicators(found.name, signal),
      more?.(found)
    ]);
    [this.run, this.alerts, this.series, this.seriesAt] =
        [found, judged.alerts, listed, found.series];
    return found;
  }
}

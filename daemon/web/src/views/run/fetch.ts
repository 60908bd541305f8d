// What the view of a run asks for besides the run, its alerts and its series.
import {get, Run, RunEvent} from "../../base/api";
import {loadPace} from "../../base/runs";
import type {Pace} from "../../base/steps";

export interface News {
  events: RunEvent[];
  pace: Pace;
}

export async function loadNews(run: Run, signal: AbortSignal): Promise<News> {
  const [{events}, pace] = await Promise.all(
      [get<{events: RunEvent[]}>("events", {run: run.name}, signal), loadPace(run, signal)]);
  return {events, pace};
}

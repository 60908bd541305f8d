// What a row of the runs needs beyond the run itself; asked again when the run has moved.
import {get, Result, Run} from "../../base/api";
import {loadPace} from "../../base/runs";
import {Curve, curveOf} from "../../base/series";
import type {Pace} from "../../base/steps";

const LOSS_BUCKETS = 100;

export interface Extra {
  at: string;  // the state of the run that it belongs to
  loss: Curve|null;
  pace: Pace;
}

export class Extras {
  private readonly known = new Map<string, Extra>();

  of(run: Run): Extra|undefined {
    return this.known.get(run.name);
  }

  async load(run: Run, signal: AbortSignal): Promise<void> {
    const at = `${run.last_step ?? ""} ${run.state}`;
    if (run.last_step === undefined || this.of(run)?.at === at) return;
    const [{results}, pace] = await Promise.all([
      get<{results: Result[]}>(
          "points",
          {run: run.name, indicator: "train.loss", unit: "none", buckets_max: LOSS_BUCKETS},
          signal),
      loadPace(run, signal)
    ]);
    const loss = results[0] === undefined ? null : curveOf(results[0]);
    this.known.set(run.name, {at, loss, pace});
  }
}

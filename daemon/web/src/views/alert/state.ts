// What the view of an alert shows: its evidence in order, which plots, around which steps. Pure.
import type {Alert, Evidence, Run} from "../../base/api";
import type {Spec} from "../../base/series";
import {Steps, stepsOf} from "../../base/steps";

const PLOTS_MOST = 6;
const AROUND_LEAST_STEPS = 100;
const AROUND_SHARE = 0.3;  // of the steps that the alert lasted

/** What moved, in the order in which it moved, and then what did not. */
export function evidenceOf(alert: Alert): Evidence[] {
  const moved = alert.evidence.filter((one) => one.step !== undefined);
  return [...moved, ...alert.evidence.filter((one) => one.step === undefined)];
}

/** The indicators that moved, in the order in which they moved, and the alert's own. */
export function plotsOf(alert: Alert): Spec[] {
  const specs: Spec[] = [];
  const add = (indicator: string, layers: number[]) => {
    if (indicator === "" || specs.some((spec) => spec.indicator === indicator)) return;
    specs.push({indicator, layer: layers[0]});
  };
  for (const one of alert.evidence)
    if (one.step !== undefined) add(one.indicator, one.layers);
  add(alert.indicator, alert.layers);
  return specs.slice(0, PLOTS_MOST);
}

/** When the indicator moved; where no evidence says it, when the alert began. */
export function movedAt(alert: Alert, indicator: string): number {
  const moved = alert.evidence.find((one) => one.indicator === indicator && one.step !== undefined);
  return Number(moved?.step ?? alert.pending_step);
}

/** The steps of the plots: the alert and some around it. */
export function stepsAround(alert: Alert, run: Run): Steps {
  const began = Number(alert.pending_step);
  const last = stepsOf(run)?.last ?? began;
  const until = Number(alert.resolved_step ?? last);
  const around = Math.max(Math.round((until - began) * AROUND_SHARE), AROUND_LEAST_STEPS);
  return {
    first: Math.max(began - around, 0),
    last: Math.max(Math.min(until + around, last), began + 1)
  };
}

/** The steps that the link to the run shows. */
export function stepsToLookAt(alert: Alert): Steps {
  return {
    first: Math.max(Number(alert.pending_step) - AROUND_LEAST_STEPS, 0),
    last: Number(alert.resolved_step ?? alert.pending_step) + AROUND_LEAST_STEPS
  };
}

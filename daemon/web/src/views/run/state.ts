// What the view of a run shows: which steps, which plots, which series can be added. Pure.
import type {Address} from "../../base/address";
import type {Alert, Run, Series} from "../../base/api";
import {layersOf, parseSpec, Spec, specText} from "../../base/series";
import {Steps, stepsOf} from "../../base/steps";

// What everybody looks at first.
const ALWAYS = ["train.loss", "train.grad_norm", "train.lr"];
const ABOUT_ALERTS_MOST = 3;

/** The steps that the address asks for, or all of the run's. */
export function shownSteps(here: Address, run: Run|null): Steps {
  const all = (run === null ? null : stepsOf(run)) ?? {first: 0, last: 1};
  const first = here.step("first") ?? all.first;
  const last = here.step("last") ?? Math.max(all.last, first + 1);
  return first < last ? {first, last} : {first: last, last: first + 1};
}

/** `factor` times as many steps around the same middle. */
export function scaled({first, last}: Steps, factor: number): Steps {
  const half = Math.max((last - first) * factor / 2, 2);
  const middle = (first + last) / 2;
  return {first: Math.max(Math.round(middle - half), 0), last: Math.round(middle + half)};
}

/** As many steps, later by a share of them. */
export function moved({first, last}: Steps, share: number): Steps {
  const by = Math.max(Math.round((last - first) * share), -first);
  return {first: first + by, last: last + by};
}

/** The plots that the address asks for, or the usual ones and those of the alerts that fire. */
export function shownSpecs(here: Address, indicators: string[], firing: Alert[]): Spec[] {
  const asked = here.texts("plot");
  if (asked.length > 0) {
    return [...new Map(asked.map((text) => {
              const spec = parseSpec(text);
              return [specText(spec), spec];
            })).values()];
  }
  const usual = ALWAYS.filter((id) => indicators.includes(id)).map((indicator) => ({indicator}));
  const about = new Map<string, Spec>();
  for (const {severity, indicator, layers} of firing) {
    if (severity === "info" || indicator === "" || about.size === ABOUT_ALERTS_MOST) continue;
    const spec = {indicator, layer: layers.length === 1 ? layers[0] : undefined};
    if (!usual.some((one) => specText(one) === specText(spec))) about.set(specText(spec), spec);
  }
  const chosen = [...usual, ...about.values()];
  return chosen.length > 0 ? chosen : indicators.slice(0, 3).map((indicator) => ({indicator}));
}

/** What there is to choose from for one more plot. Options are [value, text]. */
export interface Choices {
  choice: Spec;
  indicators: string[];
  layers: number[];
  units: [string, string][];
}

export function choicesFor(wanted: Spec, series: Map<string, Series[]>): Choices {
  const indicators = [...series.keys()].sort();
  const choice = series.has(wanted.indicator) ? wanted : {indicator: indicators[0] ?? ""};
  const all = series.get(choice.indicator) ?? [];
  const units = new Map<string, string>();
  for (const one of all) {
    if (choice.layer !== undefined && one.layer !== choice.layer) continue;
    if (one.unit_name !== "")
      units.set(`=${one.unit_name}`, one.unit_name);
    else if (one.unit !== "UNIT_NONE")
      units.set(one.unit_id, one.unit_id);
  }
  return {choice, indicators, layers: layersOf(all), units: [...units]};
}

/** "61 layers, 128 heads"; "" where the run declares no model. */
export function shapeOf({model}: Run): string {
  return [
    model?.layers ? `${model.layers} layers` : "", model?.heads ? `${model.heads} heads` : "",
    model?.experts ? `${model.experts} experts, top ${model.top_k}` : ""
  ].filter((part) => part !== "")
      .join(", ");
}

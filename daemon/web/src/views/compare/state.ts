// What the view Compare shows: two runs, or a run and the band of a rule; which series; over what.
// Pure.
import type {Address} from "../../base/address";
import type {Band, Run, Series} from "../../base/api";
import {layersOf, Spec} from "../../base/series";

/** Who is compared: run A with run B, or with the band of a rule (then `b` is null). */
export interface Pair {
  a: string;
  b: string|null;
  rule: string|null;
  ruled: string[];  // the rules that have a band
}

/** Null: there is nothing to compare with. `bands` are those of all rules. */
export function pairOf(here: Address, runs: Run[], bands: Band[]): Pair|null {
  const ruled = [...new Set(bands.map((band) => band.rule))];
  const newest = runs[0];
  if (newest === undefined || (runs.length < 2 && ruled.length === 0)) return null;
  const a = here.text("a") ?? newest.name;
  const b = here.text("b") ?? runs.find((run) => run.name !== a)?.name ?? null;
  const asked = here.text("band");
  const rule = asked !== null && ruled.includes(asked) ? asked : b === null ? ruled[0]! : null;
  return {a, b: rule === null ? b : null, rule, ruled};
}

export interface CompareState {
  pair: Pair;
  spec: Spec;
  indicators: string[];
  layers: number[];
  tokens: boolean;  // the axis: tokens, else steps
}

/** `listed`: the series by indicator of each run of the pair. */
export function compareState(
    here: Address, pair: Pair, listed: Map<string, Series[]>[], bands: Band[]): CompareState {
  const banded = bands.filter((band) => band.rule === pair.rule);
  const indicators = pair.rule === null ?
      [...new Set(listed.flatMap((one) => [...one.keys()]))].sort() :
      [...new Set(banded.map((band) => band.indicator))];
  const asked = here.text("indicator");
  const indicator = asked !== null && indicators.includes(asked) ? asked :
      indicators.includes("train.loss")                          ? "train.loss" :
                                                                   indicators[0] ?? "";
  const layers = commonLayers(
      layersOf(listed[0]?.get(indicator) ?? []),
      pair.rule === null ?
          layersOf(listed[1]?.get(indicator) ?? []) :
          [...new Set(banded.flatMap((band) => band.layer === undefined ? [] : [band.layer]))]);
  const layer = here.step("layer");
  return {
    pair,
    spec: {indicator, layer: layer !== null && layers.includes(layer) ? layer : layers[0]},
    indicators,
    layers,
    tokens: pair.rule === null ? here.text("by") === "tokens" :
                                 banded.some((band) => band.by_tokens)
  };
}

/** Layers that both have; where there is none, all. */
function commonLayers(a: number[], b: number[]): number[] {
  const both = a.filter((one) => b.includes(one));
  return both.length > 0 ? both : [...new Set([...a, ...b])].sort((x, y) => x - y);
}

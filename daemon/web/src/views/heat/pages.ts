// The two pages that show a layer × unit map: which indicators, units and words each has.
import {short} from "../../base/format";
import type {Spec} from "../../base/series";
import type {Scale} from "../../parts/palette";

export interface HeatPage {
  view: "attention"|"router";
  title: string;
  unit: "head"|"expert";
  prefix: string;       // of the indicators to choose from
  preferred: string[];  // the first that the run has is shown first
  scale(indicator: string): {scale: Scale; middle?: number};
  /** The plots of a cell that was opened. */
  details(layer: number, unit: number): Spec[];
  /** The plots below the map, always. */
  overview: Spec[];
  /** A sentence about a step's values. */
  says?(layers: number[], values: number[][]): string;
  empty: string;  // what to do when the run has none of it
}

const HEAD_PLOTS = [
  "attn.delta2.entropy_ratio_l1", "attn.delta2.effective_rank_l1", "attn.delta2.stable_rank",
  "attn.delta2.relative_norm", "attn.delta_q.entropy_ratio_l1", "attn.delta_k.entropy_ratio_l1",
  "attn.qk.norm", "attn.qk.stable_rank", "attn.logits.max", "attn.logits.entropy_ratio"
];

/** Heads: the spectra of the updates, the logits, the weights. */
export const ATTENTION: HeatPage = {
  view: "attention",
  title: "Attention",
  unit: "head",
  prefix: "attn.",
  preferred: ["attn.delta2.entropy_ratio_l1", "attn.delta2.entropy_ratio", "attn.logits.max"],
  scale: () => ({scale: "sequential"}),
  details: (layer, unit) => HEAD_PLOTS.map((indicator) => ({indicator, layer, unit: String(unit)})),
  overview: [{indicator: "attn.delta2.entropy_ratio_l1"}, {indicator: "attn.logits.max"}],
  empty:
      "The Python client watches attention by itself (docs/python.md says how, and what it needs).",
};

const ROUTER_PLOTS = [
  "router.token_entropy_ratio", "load.entropy_ratio", "router.weight_similarity",
  "load.dead_fraction", "load.max_violation", "router.margin_mean"
];

/** Experts: who gets the tokens, how sure the router is, how alike its rows are. */
export const ROUTER: HeatPage = {
  view: "router",
  title: "Router",
  unit: "expert",
  prefix: "load.",
  preferred: ["load.share"],
  scale: (indicator) =>
      indicator === "load.share" ? {scale: "diverging", middle: 1} : {scale: "sequential"},
  details: (layer, unit) => [{indicator: "load.share", layer, unit: String(unit)}],
  overview: ROUTER_PLOTS.map((indicator) => ({indicator})),
  says: loadInWords,
  empty:
      "Only models with experts have them; the Python client finds MoE routers by itself (docs/python.md).",
};

// Of the even load; below it an expert learns nothing.
const DEAD_SHARE = 0.01;

function loadInWords(layers: number[], values: number[][]): string {
  const dead = values.flatMap((row, i) => {
    const ids = row.flatMap((value, expert) => value < DEAD_SHARE ? [expert] : []);
    return ids.length === 0 ? [] : [`layer ${layers[i]}: ${ids.join(", ")}`];
  });
  const largest = Math.max(...values.flat().filter(Number.isFinite));
  return (dead.length === 0 ? "Every expert gets at least 1 % of the even load. " :
                              `Under 1 % of the even load at this step: ${dead.join("; ")}. `) +
      (Number.isFinite(largest) ? `The busiest gets ${short(largest)} times the even load.` : "");
}

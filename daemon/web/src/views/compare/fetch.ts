// What the view Compare asks for: the curves of each side, tokens along its steps, and bands.
import {Band, get, Result, Run, Series} from "../../base/api";
import {seriesLabel} from "../../base/format";
import {Choice, chooseSeries, Curve, curveOf, loadCurves} from "../../base/series";

import {aggregated, isOf} from "./bands";

import type {CompareState} from "./state";
import {Tokens, tokensOf} from "./tokens";

const BUCKETS_MOST = 800;
const POINTS_MOST = 100_000;
const SERIES_MOST = 10_000;

export interface Side {
  run: Run;
  curves: Curve[];
  tokens: Tokens|null;  // null: not asked for, or the run reports none
}

/** The bands that can be chosen: one entry for each series, without points. */
export function listBands(signal: AbortSignal): Promise<Band[]> {
  return get<{bands: Band[]}>("bands", {}, signal).then((answer) => answer.bands);
}

/** Those of the rule in the layer shown; none where two runs are compared. */
export async function loadBands({pair, spec}: CompareState, signal: AbortSignal): Promise<Band[]> {
  if (pair.rule === null) return [];
  const {bands} = await get<{bands: Band[]}>("bands", {indicator: spec.indicator}, signal);
  return bands.filter((band) => band.rule === pair.rule && band.layer === spec.layer);
}

/** `width` in pixels bounds the number of buckets. */
export async function loadSide(
    run: Run, state: CompareState, bands: Band[], width: number,
    signal: AbortSignal): Promise<Side> {
  const buckets = Math.min(Math.max(width, 300), BUCKETS_MOST);
  const [curves, tokens] = await Promise.all([
    state.pair.rule === null ? loadOwn(run.name, state, buckets, signal) :
                               loadJudged(run.name, bands, buckets, signal),
    state.tokens ? loadTokens(run.name, signal) : null
  ]);
  return {run, curves, tokens};
}

async function loadOwn(
    run: string, state: CompareState, buckets: number, signal: AbortSignal): Promise<Curve[]> {
  const choice = await chooseSeries(run, state.spec, signal);
  return (await loadCurves(choice, {}, buckets, signal)).curves;
}

async function loadTokens(run: string, signal: AbortSignal): Promise<Tokens|null> {
  const {results} = await get<{results: Result[]}>(
      "points", {run, indicator: "train.tokens_total", buckets_max: BUCKETS_MOST}, signal);
  return results[0] === undefined ? null : tokensOf(curveOf(results[0]));
}

/** The run's values that the rule compares with its bands, which are of one indicator and layer. */
async function loadJudged(
    run: string, bands: Band[], buckets: number, signal: AbortSignal): Promise<Curve[]> {
  const [any] = bands;
  if (any === undefined) return [];
  const how = any.aggregate;
  const selector = {run, indicator: any.indicator, layer: any.layer ?? -1};
  const {series} =
      await get<{series: Series[]}>("series", {...selector, limit: SERIES_MOST}, signal);
  const has = (one: Series) => bands.some((band) => isOf(band, one));
  const looked = how === "each" ? series.filter(has) : series;
  if (looked.length === 0) return [];
  const choice: Choice = {selector, labels: new Set(looked.map(seriesLabel)), more: false};
  const most = Math.max(Math.min(buckets, Math.floor(POINTS_MOST / looked.length)), 1);
  return aggregated((await loadCurves(choice, {}, most, signal)).curves, how);
}

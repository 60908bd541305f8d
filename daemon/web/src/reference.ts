// What a rule takes for healthy along a run: its band, drawn and read beside the run's own values.
import {Band, get, Series} from "./api";
import type {Line} from "./chart";
import {Choice, Curve, loadCurves} from "./series";
import {seriesLabel} from "./format";

/** The bands that can be chosen: one entry for each series, without points. */
export function listBands(signal: AbortSignal): Promise<Band[]> {
  return get<{bands: Band[]}>("bands", {}, signal).then((answer) => answer.bands);
}

/** Those of a rule in a layer. */
export async function loadBands(
    rule: string, indicator: string, layer: number|undefined,
    signal: AbortSignal): Promise<Band[]> {
  const {bands} = await get<{bands: Band[]}>("bands", {indicator}, signal);
  return bands.filter((band) => band.rule === rule && band.layer === layer);
}

const POINTS_MOST = 100_000;
const SERIES_MOST = 10_000;

/** Of all units of a layer at each bucket what the rule looks at; see docs/rules.md. */
export function aggregated(curves: Curve[], how: Band["aggregate"]): Curve[] {
  const [one] = curves;
  if (how === "each" || one === undefined) return curves;
  const at = new Map < number, {
    last: number;
    attempt: number;
    values: number[]
  }
  > ();
  for (const curve of curves) {
    curve.first.forEach((first, i) => {
      const found = at.get(first) ??
          {last: curve.last[i] as number, attempt: curve.attempt[i] as number, values: []};
      found.values.push(curve.mean[i] as number);
      at.set(first, found);
    });
  }
  const of = (values: number[]): number => {
    if (how === "mean") return values.reduce((sum, value) => sum + value, 0) / values.length;
    values.sort((a, b) => a - b);
    const place = how === "min" ? 0 :
        how === "max"           ? values.length - 1 :
                                  Math.floor((values.length - 1) / 10);
    return values[place] as number;
  };
  const steps = [...at.entries()].sort((a, b) => a[0] - b[0]);
  const values = steps.map(([, found]) => of(found.values));
  return [{
    ...one,
    label: `${how} of ${curves.length}`,
    first: steps.map(([first]) => first),
    last: steps.map(([, found]) => found.last),
    attempt: steps.map(([, found]) => found.attempt),
    mean: values,
    min: values,
    max: values
  }];
}

/** The run's values that the rule compares with its bands, which are of one indicator and layer. */
export async function loadJudged(
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

function isOf(band: Band, series: Series): boolean {
  return band.unit === series.unit && band.unit_id === series.unit_id &&
      band.unit_name === series.unit_name;
}

/** The band of a curve of loadJudged. */
export function bandOf(bands: Band[], curve: Curve): Band|undefined {
  return bands.find((band) => band.aggregate !== "each" || isOf(band, curve.series));
}

/** Where single values are healthy; a side that the rule does not limit ends at the median. */
function sides(band: Band, i: number): [number, number] {
  const {median, spread, low, high} = band.points[i] as Band["points"][0];
  if (low === undefined && high === undefined) return [median - spread, median + spread];
  return [low ?? median, high ?? median];
}

export function whatIsShaded(band: Band): string {
  const limited = band.points.some((one) => one.low !== undefined || one.high !== undefined);
  return limited ? "shaded up to where the rule finds a value abnormal" : "shaded: one spread";
}

/** From the first to the last position of a plot: outside its points a band keeps its value. */
export function bandLine(band: Band, first: number, last: number, color: string): Line {
  const places = band.points.map((_, i) => i);
  const line: Line = {x: [], y: [], min: [], max: [], color, dash: [6, 4]};
  const add = (x: number, i: number) => {
    const [low, high] = sides(band, i);
    line.x.push(x);
    line.y.push((band.points[i] as Band["points"][0]).median);
    line.min!.push(low);
    line.max!.push(high);
  };
  const at = (i: number) => (band.points[i] as Band["points"][0]).position;
  const [begin, end] = [0, places.length - 1];
  if (at(begin) > first) add(first, begin);
  for (const i of places) add(at(i), i);
  if (at(end) < last) add(last, end);
  return line;
}

/** Median and where values are healthy at `x`, linear between the points. */
export function bandAt(band: Band, x: number): {median: number; low: number; high: number} {
  const after = band.points.findIndex((one) => one.position > x);
  const upper = after === -1 ? band.points.length - 1 : after;
  const lower = Math.max(after === -1 ? upper : after - 1, 0);
  const [from, to] = [band.points[lower]!, band.points[upper]!];
  const share = upper === lower ? 0 : (x - from.position) / (to.position - from.position);
  const mix = (a: number, b: number) => a + (b - a) * Math.min(Math.max(share, 0), 1);
  const [a, b] = [sides(band, lower), sides(band, upper)];
  return {median: mix(from.median, to.median), low: mix(a[0], b[0]), high: mix(a[1], b[1])};
}

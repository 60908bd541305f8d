// Which series a run has, and curves of them: whole ranges of steps in at most so many buckets.
import {Bucket, get, Indicator, Parameters, Point, Result, Series} from "./api";
import {seriesLabel} from "./format";
import type {Steps} from "./steps";

/** What one plot shows: an indicator, of one layer and one unit if they are given. */
export interface Spec {
  indicator: string;
  layer?: number;
  unit?: string;  // "3", or "=name" of a tensor
}

/** "attn.delta2.entropy_ratio_l1@1:3", as it stands in addresses. */
export function specText(spec: Spec): string {
  if (spec.layer === undefined && spec.unit === undefined) return spec.indicator;
  return `${spec.indicator}@${spec.layer ?? ""}${spec.unit === undefined ? "" : `:${spec.unit}`}`;
}

export function parseSpec(text: string): Spec {
  const found = /^([^@]*)@(\d{0,6})(?::(.*))?$/s.exec(text);
  if (found === null) return {indicator: text};
  const spec: Spec = {indicator: found[1] as string};
  if (found[2]) spec.layer = Number(found[2]);
  if (found[3]) spec.unit = found[3];
  return spec;
}

export function specTitle(spec: Spec): string {
  const parts = [spec.indicator];
  if (spec.layer !== undefined) parts.push(`layer ${spec.layer}`);
  if (spec.unit !== undefined)
    parts.push(spec.unit.startsWith("=") ? spec.unit.slice(1) : `#${spec.unit}`);
  return parts.join(" · ");
}

/**
 * A series between two steps: of buckets the mean, the min and the max; of single points all three
 * are equal.
 */
export interface Curve {
  series: Series;
  label: string;
  bucketSteps: number;
  first: number[];  // of the buckets that have points
  last: number[];
  mean: number[];
  min: number[];
  max: number[];
  attempt: number[];
}

const LINES_MOST = 12;
const LISTED_MOST = 200;
const POINTS_MOST = 100_000;

export function curveOf(result: Result): Curve {
  const curve: Curve = {
    series: result.series,
    label: seriesLabel(result.series),
    bucketSteps: Number(result.bucket_steps),
    first: [],
    last: [],
    mean: [],
    min: [],
    max: [],
    attempt: []
  };
  const add =
      (first: number, last: number, mean: number, min: number, max: number, attempt: number) => {
        curve.first.push(first);
        curve.last.push(last);
        curve.mean.push(mean);
        curve.min.push(min);
        curve.max.push(max);
        curve.attempt.push(attempt);
      };
  for (const point of result.points as Point[]) {
    const step = Number(point.step);
    add(step, step, point.value, point.value, point.value, point.attempt);
  }
  for (const bucket of result.buckets as Bucket[]) {
    add(Number(bucket.first_step), Number(bucket.last_step), bucket.mean, bucket.min, bucket.max,
        bucket.attempt);
  }
  return curve;
}

export interface Curves {
  curves: Curve[];
  more: boolean;  // there are more series than a plot can show
  downsampledBefore?: number;
}

/** Which series a plot shows, LINES_MOST at most. */
export interface Choice {
  selector: Parameters;
  labels: Set<string>;
  more: boolean;
}

export async function chooseSeries(run: string, spec: Spec, signal?: AbortSignal): Promise<Choice> {
  const byName = spec.unit?.startsWith("=") ? spec.unit.slice(1) : undefined;
  const selector = {
    run,
    indicator: spec.indicator,
    layer: spec.layer,
    unit_name: byName,
    unit_id: byName === undefined ? spec.unit : undefined
  };
  const listed = await get<{series: Series[]; truncated: boolean}>(
      "series", {...selector, limit: LISTED_MOST}, signal);
  // The one value of a run goes before those of its ranks.
  const one = listed.series.filter((series) => series.unit === "UNIT_NONE");
  const chosen = one.length > 0 ? one : listed.series;
  const shown = chosen.slice(0, LINES_MOST);
  const more = chosen.length > shown.length || listed.truncated;
  const distinct = <T>(values: T[]): T[] => [...new Set(values)];
  const narrow = more && shown.length > 0 ? {
    layer: distinct(shown.map((series) => series.layer ?? -1)),
    unit_id: byName === undefined ? distinct(shown.map((series) => series.unit_id)) : undefined
  } :
                                            {};
  return {
    selector: {...selector, ...narrow, unit: one.length > 0 ? "none" : undefined},
    labels: new Set(shown.map(seriesLabel)),
    more
  };
}

export async function loadCurves(
    choice: Choice, range: Partial<Steps>, buckets: number, signal?: AbortSignal): Promise<Curves> {
  if (choice.labels.size === 0) return {curves: [], more: false};
  const answer = await get<{results: Result[]}>(
      "points", {
        ...choice.selector,
        first_step: range.first,
        last_step: range.last,
        buckets_max: buckets,
        limit: POINTS_MOST
      },
      signal);
  const from = answer.results[0]?.downsampled_before_step;
  return {
    curves: answer.results.map(curveOf).filter((curve) => choice.labels.has(curve.label)),
    more: choice.more,
    downsampledBefore: from === undefined ? undefined : Number(from)
  };
}

/** Indicators of a run, with how many series each has (0: not known how many). */
export async function listIndicators(
    run: string, signal?: AbortSignal): Promise<Map<string, Series[]>> {
  const found = new Map<string, Series[]>();
  const add = (all: Series[]) => {
    for (const series of all) {
      const list = found.get(series.indicator);
      if (list === undefined)
        found.set(series.indicator, [series]);
      else
        list.push(series);
    }
  };
  const all =
      await get<{series: Series[]; truncated: boolean}>("series", {run, limit: 3_000}, signal);
  add(all.series);
  if (!all.truncated) return found;
  // Too many to list: the scalars by name, and of the rest what this version knows.
  const [scalars, known] = await Promise.all([
    get<{series: Series[]}>(
        "series", {run, indicator: "train.*", unit: "none", limit: 3_000}, signal),
    catalogue()
  ]);
  add(scalars.series);
  for (const id of known.keys())
    if (!found.has(id)) found.set(id, []);
  return found;
}

let known: Promise<Map<string, Indicator>>|null = null;

/** What this daemon knows of indicators: unit, range, help. Asked once. */
export function catalogue(): Promise<Map<string, Indicator>> {
  known ??=
      get<{indicators: Indicator[]}>("indicators")
          .then(
              (answer) => new Map(answer.indicators.map((indicator) => [indicator.id, indicator])));
  known.catch(() => {
    known = null;
  });
  return known;
}

export function forgetCatalogue(): void {
  known = null;
}

/** Distinct layers of series, in order. */
export function layersOf(series: Series[]): number[] {
  const layers = new Set<number>();
  for (const one of series)
    if (one.layer !== undefined) layers.add(one.layer);
  return [...layers].sort((a, b) => a - b);
}

/** Distinct units (heads, experts, ranks) of series, in order. */
export function unitsOf(series: Series[]): number[] {
  return [...new Set(series.map((one) => Number(one.unit_id)))].sort((a, b) => a - b);
}

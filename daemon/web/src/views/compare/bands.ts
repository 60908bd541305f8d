// What a rule takes for healthy along a run: its band, drawn and read beside the run's own values.
// Pure.
import type {Band, Series} from "../../base/api";
import type {Curve} from "../../base/series";
import type {Line} from "../../parts/drawing";

/** What the rule looks at: in each bucket one value of all units of a layer (docs/rules.md). */
export function aggregated(curves: Curve[], how: Band["aggregate"]): Curve[] {
  const [one] = curves;
  if (how === "each" || one === undefined) return curves;
  interface Bucket {
    last: number;
    attempt: number;
    values: number[];
  }
  const at = new Map<number, Bucket>();
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

/** Whether the band is about the series. */
export function isOf(band: Band, series: Series): boolean {
  return band.unit === series.unit && band.unit_id === series.unit_id &&
      band.unit_name === series.unit_name;
}

/** The band that a curve is compared with. */
export function bandOf(bands: Band[], curve: Curve): Band|undefined {
  return bands.find((band) => band.aggregate !== "each" || isOf(band, curve.series));
}

/** Where single values are healthy. A side that the rule does not limit ends at the median. */
function sides(band: Band, i: number): [number, number] {
  const {median, spread, low, high} = band.points[i] as Band["points"][0];
  if (low === undefined && high === undefined) return [median - spread, median + spread];
  return [low ?? median, high ?? median];
}

export function whatIsShaded(band: Band): string {
  const limited = band.points.some((one) => one.low !== undefined || one.high !== undefined);
  return limited ? "shaded up to where the rule finds a value abnormal" : "shaded: one spread";
}

/** From the first to the last position of a plot. Outside its points a band keeps its value. */
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

// The values of a heat map, as rows by columns.
import {get, Result, Series} from "../../base/api";
import {curveOf} from "../../base/series";
import type {HeatPage} from "./pages";
import type {HeatState} from "./state";

// A value belongs to a step if it is at most so much older; summaries are sampled.
const AGE_MOST_STEPS = 512;
const COLUMNS_MOST = 160;
const CELLS_MOST = 100_000;

export interface Grid {
  rows: number[];
  columns: number[];
  values: number[][];  // [row][column]; NaN: none
  ages: number[][];    // the step a value is from; empty where the columns are steps
}

const empty = (rows: number[], columns: number[]): number[][] =>
    rows.map(() => columns.map(() => NaN));

/** All series of the indicator, for a run with too many series to list them all. */
export async function loadSeries(
    run: string, indicator: string, signal: AbortSignal): Promise<Series[]> {
  const {series} =
      await get<{series: Series[]}>("series", {run, indicator, limit: CELLS_MOST}, signal);
  return series;
}

/** Layers by units at the step: of each series its newest value up to there. */
export async function loadAtStep(
    page: HeatPage, run: string, state: HeatState, signal: AbortSignal): Promise<Grid> {
  const {layers: rows, units: columns, step, indicator} = state;
  const {results} = await get<{results: Result[]}>(
      "points", {
        run,
        indicator,
        unit: page.unit,
        first_step: Math.max(step - AGE_MOST_STEPS, 0),
        last_step: step,
        buckets_max: 1,
        limit: CELLS_MOST
      },
      signal);
  const [values, ages] = [empty(rows, columns), empty(rows, columns)];
  for (const {series, buckets, points} of results) {
    const row = rows.indexOf(series.layer ?? -1);
    const column = columns.indexOf(Number(series.unit_id));
    const bucket = buckets[buckets.length - 1];
    const point = points[points.length - 1];
    if (row < 0 || column < 0 || (bucket === undefined && point === undefined)) continue;
    (values[row] as number[])[column] = bucket?.last ?? point?.value ?? NaN;
    (ages[row] as number[])[column] = Number(bucket?.last_step ?? point?.step);
  }
  return {rows, columns, values, ages};
}

/** Units of the layer by steps: the mean of each bucket. */
export async function loadOverSteps(
    page: HeatPage, run: string, state: HeatState, signal: AbortSignal): Promise<Grid> {
  const {layer, layerUnits: rows, indicator} = state;
  const {results} = await get<{results: Result[]}>(
      "points",
      {run, indicator, unit: page.unit, layer, buckets_max: COLUMNS_MOST, limit: CELLS_MOST},
      signal);
  const curves = results.map(curveOf);
  // Summaries that are sampled leave buckets empty: columns are those that have values.
  const columns = [...new Set(curves.flatMap((curve) => curve.first))].sort((a, b) => a - b);
  const where = new Map(columns.map((start, i) => [start, i]));
  const values = empty(rows, columns);
  for (const curve of curves) {
    const row = values[rows.indexOf(Number(curve.series.unit_id))];
    if (row === undefined) continue;
    curve.first.forEach((start, i) => {
      row[where.get(start) as number] = curve.mean[i] as number;
    });
  }
  return {rows, columns, values, ages: []};
}

// What a heat view shows: indicator, direction, layer, step and the opened cell. Pure.
import type {Address} from "../../base/address";
import type {Series} from "../../base/api";
import {layersOf, Spec, unitsOf} from "../../base/series";
import type {Steps} from "../../base/steps";
import type {HeatPage} from "./pages";

export interface HeatState {
  indicator: string;
  /** Units of one layer over steps; else layers by units at a step. */
  over: boolean;
  layers: number[];
  units: number[];  // in any layer
  layer: number;
  layerUnits: number[];
  steps: Steps;
  step: number;
  unit: number|null;  // whose plots are open
}

const isOf = (page: HeatPage) => (one: Series) => one.unit === `UNIT_${page.unit.toUpperCase()}`;

/** The indicators of the page that the run has, and the one that is shown. */
export function indicatorsOf(
    page: HeatPage, here: Address, series: Map<string, Series[]>): {ids: string[]; shown: string} {
  const ids = [...series]
                  .filter(
                      ([id, list]) => id.startsWith(page.prefix) &&
                          (list.length === 0 || list.some(isOf(page))))
                  .map(([id]) => id)
                  .sort();
  const asked = here.text("indicator");
  const shown = asked !== null && ids.includes(asked) ?
      asked :
      page.preferred.find((id) => ids.includes(id)) ?? ids[0] ?? "";
  return {ids, shown};
}

/** `series`: those of the indicator. `all`: the run's steps. */
export function heatState(
    page: HeatPage, here: Address, indicator: string, series: Series[],
    all: Steps|null): HeatState {
  const own = series.filter(isOf(page));
  const layers = layersOf(own);
  const asked = here.step("layer");
  const layer = asked !== null && layers.includes(asked) ? asked : layers[0] ?? 0;
  const steps = all ?? {first: 0, last: 1};
  return {
    indicator,
    over: here.text("over") === "steps",
    layers,
    units: unitsOf(own),
    layer,
    layerUnits: unitsOf(own.filter((one) => one.layer === layer)),
    steps,
    step: Math.min(Math.max(here.step("step") ?? steps.last, steps.first), steps.last),
    unit: here.step("unit")
  };
}

/** The layer and the unit behind a cell; null outside of the map. */
export function cellAt(
    state: HeatState, row: number, column: number): {layer: number; unit: number}|null {
  const layer = state.over ? state.layer : state.layers[row];
  const unit = state.over ? state.layerUnits[row] : state.units[column];
  return layer === undefined || unit === undefined ? null : {layer, unit};
}

/** The plots of the opened cell and those of the page, as far as the run has their indicators. */
export function plotsOf(page: HeatPage, state: HeatState, series: Map<string, Series[]>):
    {details: Spec[]; overview: Spec[]} {
  const has = (spec: Spec) => series.has(spec.indicator);
  return {
    details: state.unit === null ? [] : page.details(state.layer, state.unit).filter(has),
    overview: page.overview.filter(has)
  };
}

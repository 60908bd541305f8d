// The parts of a heat view: its tools and the map.
import {whole} from "../../base/format";
import type {Steps} from "../../base/steps";
import {plain, select, stepInput} from "../../parts/controls";
import {button, h} from "../../parts/dom";
import type {Heat} from "../../parts/heatmap";
import type {Grid} from "./fetch";
import type {HeatPage} from "./pages";
import type {HeatState} from "./state";

/** A grid with the words and colours of the page. */
export function heatOf(page: HeatPage, state: HeatState, grid: Grid): Heat {
  const scale = page.scale(state.indicator);
  if (state.over) {
    return {
      rows: grid.rows.map(String),
      columns: grid.columns.map(whole),
      values: grid.values,
      rowTitle: page.unit,
      columnTitle: "step",
      ...scale
    };
  }
  return {
    rows: grid.rows.map(String),
    columns: grid.columns.map(String),
    values: grid.values,
    rowTitle: "layer",
    columnTitle: page.unit,
    ...scale,
    more: (row, column) => {
      const age = grid.ages[row]?.[column] ?? NaN;
      return Number.isFinite(age) ? `from step ${whole(age)}` : "";
    }
  };
}

export interface ToolActions {
  /** Changes parameters of the address. `soon`: more changes are likely to follow. */
  change(values: {[name: string]: string|number|null}, soon?: boolean): void;
  savePicture(): void;
  saveDrawing(): void;
  saveNumbers(): void;
}

export class Tools {
  readonly root: HTMLElement;
  private readonly indicators;
  private readonly mode;
  private readonly layers;
  private readonly exactStep;
  private readonly slider: HTMLInputElement;
  private readonly newest;

  constructor(private readonly page: HeatPage, actions: ToolActions) {
    const {change} = actions;
    this.indicators = select("Indicator", (indicator) => change({indicator}));
    this.mode = select("Show", (over) => change({over}));
    this.layers = select("Layer", (layer) => change({layer, unit: null}));
    this.exactStep = stepInput("At step", (step) => change({step}));
    this.slider = h("input", {
      type: "range",
      "aria-label": "Step",
      input: () => change({step: Number(this.slider.value)}, true)
    });
    this.newest = button("Newest", {click: () => change({step: null})});
    const save = (text: string, title: string, click: () => void) =>
        button(text, {class: "tool", title, click});
    this.root = h(
        "div", {class: "toolbar"}, this.indicators.root, this.mode.root, this.layers.root,
        this.exactStep.root, h("label", {class: "field grow"}, h("span", {}, "Step"), this.slider),
        this.newest, save("PNG", "Save the picture", actions.savePicture),
        save("SVG", "Save the picture as a drawing", actions.saveDrawing),
        save("CSV", "Save the numbers", actions.saveNumbers));
  }

  draw(indicators: string[], state: HeatState, askedStep: number|null): void {
    const {unit} = this.page;
    const {over, steps} = state;
    this.indicators.set(plain(indicators), state.indicator);
    this.mode.set(
        [["", `layers × ${unit}s at a step`], ["steps", `${unit}s of a layer over steps`]],
        over ? "steps" : "");
    this.layers.set(plain(state.layers), String(state.layer));
    this.layers.root.hidden = !over;
    this.exactStep.root.hidden = this.newest.hidden = over;
    (this.slider.parentElement as HTMLElement).hidden = over;
    this.exactStep.set(askedStep, String(steps.last));
    this.drawSlider(steps, state.step);
  }

  private drawSlider({first, last}: Steps, step: number): void {
    Object.assign(this.slider, {min: String(first), max: String(last)});
    if (document.activeElement !== this.slider) this.slider.value = String(step);
  }
}

// The parts of the view Compare: its tools, and one chart of both sides with legend and files.
import type {Band, Run} from "../../base/api";
import {compact, short, whole} from "../../base/format";
import {Curve, specTitle} from "../../base/series";
import type {Steps} from "../../base/steps";
import {plain, select} from "../../parts/controls";
import {button, h, name, notice, replace} from "../../parts/dom";
import {Cursor, Line} from "../../parts/drawing";
import {csv, png, svgFile} from "../../parts/export";
import {LineChart} from "../../parts/line_chart";
import {lineOf} from "../../parts/lines";
import {lineColor, themed} from "../../parts/palette";
import {bandAt, bandLine, bandOf, whatIsShaded} from "./bands";
import type {Side} from "./fetch";
import type {CompareState} from "./state";
import {tokensAt} from "./tokens";

// A run may have any name, so values of the chooser say what they name.
const [RUN, BAND] = ["run ", "band "];

export class Tools {
  private readonly a = select("Run A (solid)", (a) => this.change({a}));
  private readonly b = select("B (dashed)", (value) => this.chooseB(value));
  private readonly indicator =
      select("Indicator", (indicator) => this.change({indicator, layer: null}));
  private readonly layer = select("Layer", (layer) => this.change({layer}));
  private readonly by = select("Over", (by) => this.change({by}));
  readonly root =
      h("div", {class: "toolbar"}, this.a.root, this.b.root, this.indicator.root, this.layer.root,
        this.by.root);

  /** `change` puts values into the address. */
  constructor(private readonly change: (values: {[name: string]: string|null}) => void) {}

  draw(runs: Run[], {pair, spec, indicators, layers, tokens}: CompareState): void {
    this.a.set(plain(runs.map((run) => run.name)), pair.a);
    this.b.set(
        [
          ...runs.map((run): [string, string] => [RUN + run.name, run.name]),
          ...pair.ruled.map((rule): [string, string] => [BAND + rule, `reference band of ${rule}`])
        ],
        pair.rule === null ? RUN + pair.b : BAND + pair.rule);
    this.indicator.set(plain(indicators), spec.indicator);
    this.layer.set(plain(layers), String(spec.layer ?? ""));
    this.layer.root.hidden = layers.length < 2;
    this.by.set([["", "steps"], ["tokens", "tokens"]], tokens ? "tokens" : "");
    this.by.root.hidden = pair.rule !== null;  // as the band is
  }

  private chooseB(value: string): void {
    if (value.startsWith(BAND))
      this.change({band: value.slice(BAND.length), b: null});
    else
      this.change({b: value.slice(RUN.length), band: null});
  }
}

/** What is compared, loaded. */
export interface Comparison {
  state: CompareState;
  sides: Side[];
  bands: Band[];  // of the rule in the layer shown; empty where two runs are compared
}

/** Where a step lies on the axis. */
function placeOf({state}: Comparison, side: Side, step: number): number {
  return state.tokens ? tokensAt(side.tokens, step) : step;
}

/** Of the i-th curve of the n-th side: a run with one curve has one colour. */
function colorOf(side: Side, n: number, i: number): string {
  return lineColor(side.curves.length === 1 ? n : i);
}

/** What the axis covers, and a line for each curve of each side and for each band. */
export function linesOf(shown: Comparison): {lines: Line[]; all: Steps} {
  const lines = shown.sides.flatMap((side, n) => side.curves.map((curve, i): Line => {
    const line = lineOf(curve);
    const x = line.x.map((step) => placeOf(shown, side, step));
    return {...line, x, color: colorOf(side, n, i), dash: n === 0 ? [] : [6, 4]};
  }));
  const places = lines.flatMap((line) => line.x.filter(Number.isFinite));
  const [low, high] =
      places.reduce(([a, b], x) => [Math.min(a, x), Math.max(b, x)], [Infinity, -Infinity]);
  const all = low > high ? {first: 0, last: 1} : {first: Math.floor(low), last: Math.ceil(high)};
  const [first] = shown.sides;
  const banded = (first?.curves ?? []).flatMap((curve, i) => {
    const band = bandOf(shown.bands, curve);
    return band === undefined ? [] :
                                [bandLine(band, all.first, all.last, colorOf(first as Side, 1, i))];
  });
  return {lines: [...lines, ...banded], all};
}

export class ComparisonChart {
  private readonly cursor = new Cursor();
  private readonly box = h("div", {class: "chart tall"});
  private readonly legend = h("ul", {class: "legend"});
  private readonly readout = h("output", {class: "readout"});
  private readonly title = h("span", {class: "plot-title"});
  private readonly figure;
  private readonly chart;
  private readonly stop = this.cursor.listen(() => this.read());
  readonly root = h("div", {});
  private shown: Comparison|null = null;

  constructor(zoom: (range: Steps|null) => void) {
    const tool = (text: string, title: string, click: () => void) =>
        button(text, {class: "tool", title, click});
    this.figure =
        h("figure", {class: "plot"},
          h("figcaption", {}, this.title,
            h("span", {class: "tools"}, tool("PNG", "Save the picture", () => this.savePicture()),
              tool("SVG", "Save the picture as a drawing", () => this.saveDrawing()),
              tool("CSV", "Save the numbers", () => this.saveNumbers()))),
          this.box, this.readout, this.legend);
    this.chart = new LineChart(this.box, {
      name: "Comparison",
      cursor: this.cursor,
      xText: (x) => this.shown?.state.tokens || x >= 1e6 ? compact(x) : whole(x),
      zoom
    });
  }

  close(): void {
    this.stop();
    this.chart.close();
  }

  /** `range`: the ends that are asked for; null: all there is. */
  draw(shown: Comparison, range: {first: number|null; last: number | null}): void {
    this.shown = shown;
    const {lines, all} = linesOf(shown);
    this.chart.draw({
      lines,
      spans: [],
      marks: [],
      logarithmic: false,
      first: range.first ?? all.first,
      last: range.last ?? Math.max(all.last, all.first + 1)
    });
    const {rule} = shown.state.pair;
    const title = `${specTitle(shown.state.spec)} over ${shown.state.tokens ? "tokens" : "steps"}`;
    this.title.textContent = title;
    this.chart.canvas.setAttribute(
        "aria-label",
        `${title} of ${shown.sides.map((side) => side.run.name).join(" and ")}` +
            (rule === null ? "" : ` and the band of rule ${rule}`));
    replace(this.root, this.figure, ...remarks(shown));
    this.read();
  }

  /** In place of the chart. */
  refuse(why: string): void {
    replace(this.root, notice("error", "These cannot be compared.", why));
  }

  /** The legend with the values at the cursor, or the newest ones. */
  private read(): void {
    if (this.shown === null) return;
    const {sides, state} = this.shown;
    const {x} = this.cursor;
    this.readout.textContent =
        x === null ? "newest values" : `${state.tokens ? "tokens" : "step"} ${whole(x)}`;
    const entries = sides.flatMap((side, n) => side.curves.flatMap((_, i) => this.entry(n, i, x)));
    replace(this.legend, ...entries);
  }

  private entry(n: number, i: number, x: number|null): HTMLElement[] {
    const shown = this.shown as Comparison;
    const side = shown.sides[n] as Side;
    const curve = side.curves[i] as Curve;
    const xs = curve.first.map((step) => placeOf(shown, side, step));
    const index = (x === null ? xs : xs.filter((one) => one <= x)).length - 1;
    const entries =
        [h("li", {}, swatch(colorOf(side, n, i), n !== 0), name(side.run.name, "name short"),
           ` ${curve.label} `, h("b", {}, short(curve.mean[index])),
           h("span", {class: "faint"}, index < 0 ? "" : ` step ${whole(curve.last[index])}`))];
    const band = bandOf(shown.bands, curve);
    if (band !== undefined && index >= 0) {
      const healthy = bandAt(band, x ?? xs[index] as number);
      entries.push(
          h("li", {}, swatch(colorOf(side, 1, i), true), "band ", h("b", {}, short(healthy.median)),
            ` (${short(healthy.low)} to ${short(healthy.high)})`));
    }
    return entries;
  }

  private names(): string[] {
    const {sides = [], state} = this.shown ?? {};
    const rule = state?.pair.rule ?? null;
    return [...sides.map((side) => side.run.name), ...rule === null ? [] : [`band of ${rule}`]];
  }
  private get file(): string {
    return `compare-${this.names().join("-")}-${this.shown?.state.spec.indicator}`;
  }
  private get caption(): string {
    return `${this.title.textContent}: ${this.names().join(" (solid), ")} (dashed)`;
  }
  private savePicture(): void {
    png(this.file, this.chart.canvas, this.caption, themed("card"), themed("text"));
  }
  private saveDrawing(): void {
    svgFile(this.file, this.chart.svg(this.caption));
  }
  private saveNumbers(): void {
    if (this.shown !== null) csv(this.file, numbersOf(this.shown));
  }
}

function swatch(color: string, dashed: boolean): HTMLElement {
  const made = h("i", {class: "swatch"});
  made.style.borderTopColor = color;
  made.style.borderTopStyle = dashed ? "dashed" : "solid";
  return made;
}

/** What the chart cannot show, in words. */
function remarks({sides, bands, state}: Comparison): HTMLElement[] {
  const {pair: {rule}, tokens} = state;
  const [band] = bands;
  const none = sides.filter((side) => side.curves.length === 0);
  const lost = sides.filter((side) => tokens && side.tokens === null);
  return [
    ...band === undefined ? [] : [h("p", {class: "faint"}, "The dashed line is the band that rule ",
                                    h("code", {}, rule ?? ""),
                                    ` compares with, ${whatIsShaded(band)}.`)],
    ...none.map((side) => notice("empty", "This run has no such values:", name(side.run.name))),
    ...lost.map(
        (side) => notice(
            "empty",
            "This run reports no tokens, so it cannot be drawn over them:", name(side.run.name)))
  ];
}

/** All values as rows of a CSV file. */
export function numbersOf(shown: Comparison): (string|number)[][] {
  const {state: {spec, tokens}, sides, bands} = shown;
  const head =
      ["run", "indicator", "series", "last_step", tokens ? "tokens" : "step", "mean", "min", "max"];
  const curves = sides.flatMap(
      (side) => side.curves.flatMap(
          (curve) => curve.last.map(
              (step, i): (string|number)[] =>
                  [side.run.name, spec.indicator, curve.label, step, placeOf(shown, side, step),
                   curve.mean[i] as number, curve.min[i] as number, curve.max[i] as number])));
  const banded = bands.flatMap(
      (band) => band.points.map(
          ({position, median, low, high}): (string|number)[] =>
              [`band of ${band.rule}`, band.indicator, band.unit_name || band.unit_id,
               tokens ? "" : position, position, median, low ?? "", high ?? ""]));
  return [head, ...curves, ...banded];
}

// A plot of a run's indicator: loads what it shows, draws it, reads values off, and gives picture
// and numbers away.
import {exact, short, whole} from "../base/format";
import {catalogue, Choice, chooseSeries, Curves, loadCurves, Spec, specTitle} from "../base/series";
import type {Steps} from "../base/steps";
import {button, h, replace} from "./dom";
import {Cursor, Drawing, Mark, Span} from "./drawing";
import {csv, png, svgFile} from "./export";
import {LineChart} from "./line_chart";
import {indexAt, lineOf, wantsLog} from "./lines";
import {dashes, lineColor, themed} from "./palette";

export interface PlotOptions {
  run: string;
  spec: Spec;
  cursor: Cursor;
  title?: string;
  height?: "small"|"large";
  zoom?(range: Steps|null): void;
  remove?(): void;
}

/** What is drawn besides the lines. */
export interface Around {
  spans: Span[];
  marks: Mark[];
}

export class Plot {
  readonly root: HTMLElement;
  private readonly chart: LineChart;
  private readonly legend = h("ul", {class: "legend"});
  private readonly readout = h("output", {class: "readout"});
  private readonly message = h("p", {class: "plot-message"});
  private readonly title = h("figcaption", {});
  private turn = 0;
  private choice: {at: string; choice: Choice}|null = null;
  private data: Curves = {curves: [], more: false};
  private drawing: Drawing|null = null;
  private logarithmic: boolean|null = null;  // null: as the values want it
  private readonly log = button("log", {
    class: "tool",
    "aria-pressed": "false",
    title: "Logarithmic axis",
    click: () => this.toggleLog()
  });
  private readonly stop: () => void;

  constructor(private readonly options: PlotOptions) {
    const box = h("div", {class: `chart ${options.height ?? "large"}`});
    this.root =
        h("figure", {class: "plot"}, this.title, box, this.message, this.readout, this.legend);
    this.chart = new LineChart(box, {name: this.name, cursor: options.cursor, zoom: options.zoom});
    this.stop = options.cursor.listen((x) => this.read(x));
    this.message.textContent = "Loading …";
    void this.caption();
  }

  close(): void {
    this.stop();
    this.chart.close();
  }

  get spec(): Spec {
    return this.options.spec;
  }

  private get name(): string {
    return this.options.title ?? specTitle(this.options.spec);
  }

  private async caption(): Promise<void> {
    const tools = h(
        "span", {class: "tools"}, this.log,
        button("PNG", {class: "tool", title: "Save the picture", click: () => this.savePicture()}),
        button("SVG", {
          class: "tool",
          title: "Save the picture as a drawing",
          click: () => svgFile(this.file, this.chart.svg(this.heading))
        }),
        button("CSV", {class: "tool", title: "Save the numbers", click: () => this.saveNumbers()}),
        this.options.remove !== undefined && button("×", {
          class: "tool",
          title: `Remove ${this.name}`,
          "aria-label": `Remove ${this.name}`,
          click: this.options.remove
        }));
    const heading = h("span", {class: "plot-title"}, this.name);
    this.title.replaceChildren(heading, tools);
    try {
      const info = (await catalogue()).get(this.options.spec.indicator);
      if (info === undefined) return;
      heading.title = `${info.help}. Range ${info.range}`;
      if (info.unit !== "1" && info.unit !== "ratio") {
        heading.append(h("span", {class: "unit"}, ` ${info.unit.replace(/_/g, " ")}`));
      }
    } catch {
      // The explanation is a help only; the plot says for itself when the daemon is away.
    }
  }

  /** Loads the range and draws it. `at` changes when the run may have more series. */
  async load(at: string, range: Steps, around: Around, signal?: AbortSignal): Promise<void> {
    const {run, spec} = this.options;
    const turn = ++this.turn;
    if (this.choice?.at !== at) this.choice = {at, choice: await chooseSeries(run, spec, signal)};
    const width = Math.max(this.root.clientWidth, 300);
    const buckets = Math.min(Math.round(width), 1200);
    const data = await loadCurves(this.choice.choice, range, buckets, signal);
    if (turn !== this.turn) return;  // another range was asked for meanwhile
    this.data = data;
    this.drawing = {
      ...range,
      ...around,
      lines: this.data.curves.map(lineOf),
      logarithmic: this.logarithmic ?? wantsLog(this.data.curves)
    };
    this.show();
  }

  private show(): void {
    if (this.drawing === null) return;
    const {curves, more, downsampledBefore} = this.data;
    const some = curves.some((curve) => curve.first.length > 0);
    const notes: string[] = [];
    if (!some) notes.push("No values in this range. Zoom out, or choose another indicator.");
    if (more)
      notes.push(`The first ${curves.length} series are shown; choose a layer to see others.`);
    if (downsampledBefore !== undefined)
      notes.push(`Before step ${whole(downsampledBefore)} thinned out.`);
    this.message.textContent = notes.join(" ");
    this.message.hidden = notes.length === 0;
    this.log.setAttribute("aria-pressed", String(this.drawing.logarithmic));
    this.chart.draw(this.drawing);
    this.chart.canvas.setAttribute("aria-label", this.description());
    this.read(this.options.cursor.x);
  }

  private description(): string {
    const {first, last} = this.drawing as Drawing;
    const ends = this.data.curves.slice(0, 4).map(
        (curve) => `${curve.label || "last value"} ${short(curve.mean[curve.mean.length - 1])}`);
    return `${this.name}, steps ${first} to ${last}: ${ends.join(", ")}. ` +
        "Arrow keys read values, plus and minus zoom, 0 shows everything.";
  }

  /** The legend with the values at `x`, or the newest ones. */
  private read(x: number|null): void {
    const {curves} = this.data;
    let steps = "";
    const entries = curves.map((curve, n) => {
      const i = x === null ? curve.first.length - 1 : indexAt(curve, x);
      let text = "–";
      if (i >= 0) {
        const [first, last] = [curve.first[i] as number, curve.last[i] as number];
        text = (x === null ? short : exact)(curve.mean[i] as number);
        if ((curve.min[i] as number) < (curve.max[i] as number)) {
          text = `${short(curve.mean[i])} (${short(curve.min[i])} to ${short(curve.max[i])})`;
        }
        steps ||= first === last ? `step ${whole(first)}` :
                                   `steps ${whole(first)} to ${whole(last)}, mean (min to max)`;
      }
      const swatch = h("i", {class: "swatch"});
      swatch.style.borderTopColor = lineColor(n);
      swatch.style.borderTopStyle = dashes(n).length > 0 ? "dashed" : "solid";
      return h(
          "li", {}, swatch, curve.label === "" ? "" : h("bdi", {}, `${curve.label} `),
          h("b", {}, text));
    });
    this.readout.textContent = steps === "" ? "" : x === null ? `newest: ${steps}` : steps;
    replace(this.legend, ...entries);
  }

  private toggleLog(): void {
    if (this.drawing === null) return;
    this.logarithmic = this.drawing.logarithmic = !this.drawing.logarithmic;
    this.show();
  }

  private get heading(): string {
    return `${this.options.run}: ${this.name}`;
  }

  private get file(): string {
    return `${this.options.run}-${this.name}`;
  }

  private savePicture(): void {
    png(this.file, this.chart.canvas, this.heading, themed("card"), themed("text"));
  }

  private saveNumbers(): void {
    const rows: (string|number)[][] = [
      ["run", "indicator", "series", "attempt", "first_step", "last_step", "mean", "min", "max"]
    ];
    for (const curve of this.data.curves) {
      curve.first.forEach((first, i) => rows.push([
        this.options.run, curve.series.indicator, curve.label, curve.attempt[i] as number, first,
        curve.last[i] as number, curve.mean[i] as number, curve.min[i] as number,
        curve.max[i] as number
      ]));
    }
    csv(this.file, rows);
  }
}

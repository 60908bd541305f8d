// Lines over steps on a canvas, by Chart.js: with bands from min to max, spans behind them, marks,
// a cursor that all charts of a view share, and zoom by dragging. All pointers and keys are ours.
import {Chart, Filler, LinearScale, LineController, LineElement, LogarithmicScale, PointElement} from "chart.js";

import type {ChartDataset, Plugin, Scale} from "chart.js";

import {compact, whole} from "../base/format";
import {Cursor, drawable, Drawing, styleOf} from "./drawing";
import {lineSvg} from "./line_svg";
import {faded, themed} from "./palette";

Chart.register(LineController, LineElement, PointElement, LinearScale, LogarithmicScale, Filler);

type Points = {
  x: number; y: number
}[];
type Lines = Chart<"line", Points>;
type Dataset = ChartDataset<"line", Points>;

const AXIS_PX = 58;
const DRAG_LEAST_PX = 6;

interface ChartOptions {
  name: string;
  cursor: Cursor;
  /** The reader chose a range; null: everything. */
  zoom?(range: {first: number; last: number}|null): void;
  xText?(x: number): string;
}

export class LineChart {
  readonly canvas = document.createElement("canvas");
  private chart: Lines|null = null;
  private drawing: Drawing|null = null;
  private drag: {from: number; to: number}|null = null;
  private readonly stop: () => void;

  constructor(box: HTMLElement, private readonly options: ChartOptions) {
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", options.name);
    box.append(this.canvas);
    this.stop = options.cursor.listen(() => this.chart?.draw());
    this.listen();
  }

  close(): void {
    this.stop();
    this.chart?.destroy();
    this.canvas.remove();
  }

  draw(drawing: Drawing): void {
    this.drawing = drawing;
    const datasets = this.datasets(drawing);
    if (this.chart === null || this.chart.options.scales?.y?.type !== this.yType(drawing)) {
      this.chart?.destroy();
      this.chart = this.make(drawing);
    }
    const chart = this.chart;
    chart.data.datasets = datasets;
    Object.assign(chart.options.scales!.x!, {min: drawing.first, max: drawing.last});
    this.theme(chart);
    chart.update("none");
  }

  /** What is drawn, as an SVG file; "" before the first drawing. */
  svg(title: string): string {
    const {chart, drawing} = this;
    if (chart === null || drawing === null) return "";
    const {x, y} = chart.scales as {[name: string]: Scale};
    const ticks = (scale: Scale) =>
        scale.ticks.map((tick) => ({value: tick.value, label: String(tick.label ?? "")}))
            .filter((tick) => tick.label !== "");
    return lineSvg(
        {
          title,
          width: chart.width,
          height: chart.height,
          area: chart.chartArea,
          x: (value) => x!.getPixelForValue(value),
          y: (value) => y!.getPixelForValue(value),
          xTicks: ticks(x!),
          yTicks: ticks(y!)
        },
        drawing);
  }

  private yType(drawing: Drawing): "linear"|"logarithmic" {
    return drawing.logarithmic ? "logarithmic" : "linear";
  }

  private datasets(drawing: Drawing): Dataset[] {
    const made: Dataset[] = [];
    const points = (x: number[], y: number[]) =>
        x.map((at, i) => ({x: at, y: drawable(drawing, y[i]) ? y[i] as number : NaN}));
    drawing.lines.forEach((line, n) => {
      const {color, dash} = styleOf(line, n);
      const few = line.x.length < 40;
      made.push({
        data: points(line.x, line.y),
        borderColor: color,
        backgroundColor: color,
        borderWidth: 1.5,
        borderDash: dash,
        pointRadius: few ? 2 : 0,
        pointHitRadius: 0,
        order: n
      });
      const {min, max} = line;
      if (min === undefined || max === undefined) return;
      const band =
          {borderWidth: 0, pointRadius: 0, backgroundColor: faded(color, 0.18), order: 100 + n};
      made.push({...band, data: points(line.x, min), fill: false});
      made.push({...band, data: points(line.x, max), fill: "-1"});
    });
    return made;
  }

  private make(drawing: Drawing): Lines {
    const xText = this.options.xText ?? ((x: number) => x < 1e6 ? whole(x) : compact(x));
    const behind: Plugin<"line"> = {
      id: "behind",
      beforeDatasetsDraw: (chart) => this.drawBehind(chart),
      afterDatasetsDraw: (chart) => this.drawAbove(chart)
    };
    return new Chart<"line", Points>(this.canvas, {
      type: "line",
      data: {datasets: []},
      plugins: [behind],
      options: {
        animation: false,
        responsive: true,
        maintainAspectRatio: false,
        parsing: false,
        normalized: true,
        events: [],
        spanGaps: true,
        layout: {padding: {right: 10, top: 6}},
        scales: {
          x: {
            type: "linear",
            min: drawing.first,
            max: drawing.last,
            ticks: {
              maxRotation: 0,
              autoSkipPadding: 24,
              maxTicksLimit: 8,
              callback: (value) => Number.isInteger(Number(value)) ? xText(Number(value)) : ""
            }
          },
          y: {
            type: this.yType(drawing),
            ticks: {maxTicksLimit: 6, callback: (value) => compact(Number(value))},
            // Of zeros alone the library makes -1 to 1, and most of what is 0 cannot be less.
            afterDataLimits: (scale) => {
              const {min, max} = scale.getMinMax(true);
              if (scale.type === "linear" && min === 0 && max === 0) scale.min = 0;
            },
            afterFit: (scale) => {
              scale.width = AXIS_PX;
            }
          },
        },
      },
    });
  }

  private theme(chart: Lines): void {
    for (const scale of [chart.options.scales!.x!, chart.options.scales!.y!]) {
      scale.grid = {color: themed("grid"), borderColor: themed("axis")};
      Object.assign(scale.ticks!, {color: themed("faint"), font: {size: 11}});
    }
  }

  private drawBehind(chart: Chart): void {
    const {ctx, chartArea: area} = chart;
    const x = chart.scales["x"]!;
    ctx.save();
    for (const span of this.drawing?.spans ?? []) {
      const from = Math.max(x.getPixelForValue(span.first), area.left);
      const to = Math.min(x.getPixelForValue(span.last), area.right);
      if (to < area.left || from > area.right) continue;
      // Single indicators overlap a lot: they get a stripe only.
      const info = span.kind === "info";
      ctx.fillStyle = faded(themed(span.kind), 0.13);
      if (!info) ctx.fillRect(from, area.top, Math.max(to - from, 2), area.height);
      ctx.fillStyle = themed(span.kind);
      ctx.fillRect(from, area.top + (info ? 4 : 0), Math.max(to - from, 2), 3);
    }
    ctx.restore();
  }

  private drawAbove(chart: Chart): void {
    const {ctx, chartArea: area} = chart;
    const x = chart.scales["x"]!;
    const y = chart.scales["y"]!;
    ctx.save();
    ctx.lineWidth = 1;
    ctx.font = "11px sans-serif";
    ctx.beginPath();
    ctx.rect(area.left, area.top, area.width, area.height);
    ctx.clip();
    for (const mark of this.drawing?.marks ?? []) {
      ctx.strokeStyle = themed("text");
      ctx.setLineDash([4, 3]);
      ctx.beginPath();
      if (mark.kind === "step") {
        const at = x.getPixelForValue(mark.at);
        ctx.moveTo(at, area.top);
        ctx.lineTo(at, area.bottom);
        if (at >= area.left && at <= area.right) {
          const right = at > area.right - 80;
          ctx.textAlign = right ? "right" : "left";
          this.write(ctx, mark.text, at + (right ? -4 : 4), area.bottom - 6);
        }
      } else {
        const from = Math.max(x.getPixelForValue(mark.from ?? -Infinity), area.left);
        const to = Math.min(x.getPixelForValue(mark.to ?? Infinity), area.right);
        const at = y.getPixelForValue(mark.at);
        ctx.moveTo(from, at);
        ctx.lineTo(to, at);
        ctx.textAlign = "left";
        this.write(ctx, mark.text, from + 4, at - 4);
      }
      ctx.stroke();
    }
    ctx.setLineDash([]);
    const cursor = this.options.cursor.x;
    if (cursor !== null) {
      const at = Math.round(x.getPixelForValue(cursor)) + 0.5;
      ctx.strokeStyle = themed("faint");
      ctx.beginPath();
      ctx.moveTo(at, area.top);
      ctx.lineTo(at, area.bottom);
      ctx.stroke();
    }
    if (this.drag !== null) {
      ctx.fillStyle = faded(themed("accent"), 0.2);
      ctx.fillRect(
          Math.min(this.drag.from, this.drag.to), area.top, Math.abs(this.drag.to - this.drag.from),
          area.height);
    }
    ctx.restore();
  }

  /** Readable over lines. */
  private write(ctx: CanvasRenderingContext2D, text: string, x: number, y: number): void {
    ctx.save();
    ctx.setLineDash([]);
    ctx.lineWidth = 3;
    ctx.strokeStyle = themed("card");
    ctx.strokeText(text, x, y);
    ctx.fillStyle = themed("text");
    ctx.fillText(text, x, y);
    ctx.restore();
  }

  private valueAt(pixel: number): number|null {
    const chart = this.chart;
    if (chart === null || this.drawing === null) return null;
    const {left, right} = chart.chartArea;
    const at = Math.min(Math.max(pixel, left), right);
    return Math.round(chart.scales["x"]!.getValueForPixel(at) ?? this.drawing.first);
  }

  private listen(): void {
    const canvas = this.canvas;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.drag = {from: event.offsetX, to: event.offsetX};
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (this.drag !== null) this.drag.to = event.offsetX;
      this.options.cursor.set(this.valueAt(event.offsetX));
      if (this.drag !== null) this.chart?.draw();
    });
    canvas.addEventListener("pointerup", () => {
      const drag = this.drag;
      this.drag = null;
      if (drag === null || Math.abs(drag.to - drag.from) < DRAG_LEAST_PX) return;
      const first = this.valueAt(Math.min(drag.from, drag.to));
      const last = this.valueAt(Math.max(drag.from, drag.to));
      if (first !== null && last !== null && last > first) this.options.zoom?.({first, last});
    });
    canvas.addEventListener("pointercancel", () => {
      this.drag = null;
    });
    canvas.addEventListener("pointerleave", () => {
      if (this.drag === null) this.options.cursor.set(null);
    });
    canvas.addEventListener("dblclick", () => this.options.zoom?.(null));
    canvas.addEventListener("blur", () => this.options.cursor.set(null));
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  private key(event: KeyboardEvent): void {
    const drawing = this.drawing;
    if (drawing === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const width = drawing.last - drawing.first;
    const at = this.options.cursor.x ?? drawing.last;
    const move = (by: number) => this.options.cursor.set(
        Math.min(Math.max(Math.round(at + by), drawing.first), drawing.last));
    const zoom = (factor: number) => {
      const half = Math.max(width * factor / 2, 2);
      this.options.zoom?.({first: Math.max(Math.round(at - half), 0), last: Math.round(at + half)});
    };
    const one = Math.max(width / 100, 1);
    const actions: {[key: string]: () => void} = {
      ArrowLeft: () => move(event.shiftKey ? -one * 10 : -one),
      ArrowRight: () => move(event.shiftKey ? one * 10 : one),
      Home: () => this.options.cursor.set(drawing.first),
      End: () => this.options.cursor.set(drawing.last),
      "+": () => zoom(0.5),
      "=": () => zoom(0.5),
      "-": () => zoom(2),
      "0": () => this.options.zoom?.(null),
      Escape: () => this.options.cursor.set(null),
    };
    const action = actions[event.key];
    if (action === undefined) return;
    event.preventDefault();
    action();
  }
}

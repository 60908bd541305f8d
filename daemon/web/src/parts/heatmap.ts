// Rows by columns of one value each, as colours. Cells without a value are hatched, never coloured.
import {exact, short} from "../base/format";
import {h} from "./dom";
import {csv, png, svgFile} from "./export";
import {heatColor, Scale, themed} from "./palette";
import {element, escaped, sheet} from "./svg";

export interface Heat {
  rows: string[];
  columns: string[];
  values: number[][];   // [row][column]; NaN: none
  rowTitle: string;     // "layer"
  columnTitle: string;  // "head"
  scale: Scale;
  middle?: number;  // of a diverging scale
  /** More about a cell than its value. */
  more?(row: number, column: number): string;
}

interface Label {
  text: string;
  x: number;
  y: number;  // of its middle
  align: "left"|"center"|"right"
}

const LABELS_PX = 46;
const FOOT_PX = 34;

export class HeatMap {
  readonly root: HTMLElement;
  private readonly box = h("div", {class: "heat-box"});
  private readonly canvas = h("canvas", {tabindex: 0, role: "img"});
  private readonly readout = h("output", {class: "readout"});
  private readonly bar = h("div", {class: "heat-scale"});
  private heat: Heat|null = null;
  private low = 0;
  private high = 1;
  private at: {row: number; column: number}|null = null;
  private readonly observer: ResizeObserver;

  constructor(
      private readonly name: () => string,
      private readonly choose?: (row: number, column: number) => void) {
    this.root = h("figure", {class: "heat"}, this.box, this.readout, this.bar);
    this.box.append(this.canvas);
    this.canvas.setAttribute("aria-label", "Heat map");
    this.observer = new ResizeObserver(() => this.paint());
    this.observer.observe(this.box);
    this.listen();
  }

  close(): void {
    this.observer.disconnect();
  }

  draw(heat: Heat): void {
    this.heat = heat;
    let [low, high] = [Infinity, -Infinity];
    for (const row of heat.values) {
      for (const value of row) {
        if (!Number.isFinite(value)) continue;
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
    }
    [this.low, this.high] = low <= high ? [low, high] : [0, 1];
    this.canvas.setAttribute(
        "aria-label",
        `${this.name()}: ${heat.rows.length} ${heat.rowTitle}s by ${heat.columns.length} ` +
            `${heat.columnTitle}s, from ${short(low)} to ${
                short(high)}. Arrow keys move, Enter opens.`);
    this.paint();
    this.legend();
  }

  /** Of a diverging scale both halves reach as far as the values do. */
  private share(value: number): number {
    const middle = this.heat?.scale === "diverging" ? this.heat.middle : undefined;
    if (middle !== undefined) {
      return value < middle ? 0.5 - 0.5 * (middle - value) / (middle - this.low) :
                              0.5 + 0.5 * (value - middle) / Math.max(this.high - middle, 1e-12);
    }
    return this.high > this.low ? (value - this.low) / (this.high - this.low) : 0.5;
  }

  private cells(): {width: number; height: number; cellWidth: number; cellHeight: number} {
    const heat = this.heat as Heat;
    const width = Math.max(this.box.clientWidth, 200);
    const cellWidth = Math.min((width - LABELS_PX) / Math.max(heat.columns.length, 1), 72);
    const rows = Math.max(heat.rows.length, 1);
    const cellHeight = Math.min(Math.max(420 / rows, 7), 40);
    return {width, height: cellHeight * rows + FOOT_PX, cellWidth, cellHeight};
  }

  private paint(): void {
    const heat = this.heat;
    const draw = this.canvas.getContext("2d");
    if (heat === null || draw === null) return;
    const {width, height, cellWidth, cellHeight} = this.cells();
    const ratio = devicePixelRatio;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    draw.scale(ratio, ratio);
    const gap = Math.min(cellWidth, cellHeight) > 9 ? 1 : 0;
    const hatch = this.hatch(draw);
    heat.values.forEach((row, r) => row.forEach((value, c) => {
      draw.fillStyle = Number.isFinite(value) ? heatColor(heat.scale, this.share(value)) : hatch;
      draw.fillRect(LABELS_PX + c * cellWidth, r * cellHeight, cellWidth - gap, cellHeight - gap);
    }));
    const labels = this.labels(draw, heat, cellWidth, cellHeight);
    draw.fillStyle = themed("faint");
    draw.textBaseline = "middle";
    for (const {text, x, y, align} of labels) {
      draw.textAlign = align;
      draw.fillText(text, x, y, align === "right" ? LABELS_PX - 8 : undefined);
    }
    if (this.at === null) return;
    draw.strokeStyle = themed("text");
    draw.lineWidth = 2;
    draw.strokeRect(
        LABELS_PX + this.at.column * cellWidth, this.at.row * cellHeight, cellWidth, cellHeight);
  }

  private hatch(draw: CanvasRenderingContext2D): CanvasPattern|string {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const line = tile.getContext("2d");
    if (line === null) return themed("grid");
    line.strokeStyle = themed("grid");
    line.beginPath();
    line.moveTo(0, 6);
    line.lineTo(6, 0);
    line.stroke();
    return draw.createPattern(tile, "repeat") ?? themed("grid");
  }

  private labels(draw: CanvasRenderingContext2D, heat: Heat, cellWidth: number, cellHeight: number):
      Label[] {
    draw.font = "11px sans-serif";
    const labels: Label[] = [];
    const everyRow = Math.max(Math.ceil(13 / cellHeight), 1);
    heat.rows.forEach((text, r) => {
      if (r % everyRow === 0)
        labels.push({text, x: LABELS_PX - 6, y: (r + 0.5) * cellHeight, align: "right"});
    });
    const longest = Math.max(...heat.columns.map((label) => draw.measureText(label).width), 8);
    const everyColumn = Math.max(Math.ceil((longest + 10) / cellWidth), 1);
    const bottom = heat.rows.length * cellHeight;
    heat.columns.forEach((text, c) => {
      if (c % everyColumn !== 0) return;
      const x = LABELS_PX + (c + (everyColumn === 1 ? 0.5 : 0)) * cellWidth;
      const end = LABELS_PX + heat.columns.length * cellWidth;
      if (everyColumn > 1 && x + draw.measureText(text).width > end) return;
      labels.push({text, x, y: bottom + 9, align: everyColumn === 1 ? "center" : "left"});
    });
    const axes = `${heat.rowTitle} ↓   ${heat.columnTitle} →`;
    return [...labels, {text: axes, x: LABELS_PX, y: bottom + 25, align: "left"}];
  }

  private legend(): void {
    const heat = this.heat as Heat;
    const strip = h("canvas", {width: 160, height: 10, "aria-hidden": "true"});
    const draw = strip.getContext("2d");
    for (let i = 0; draw !== null && i < 160; ++i) {
      draw.fillStyle = heatColor(heat.scale, i / 159);
      draw.fillRect(i, 0, 1, 10);
    }
    const missing = heat.values.some((row) => row.some((value) => !Number.isFinite(value)));
    this.bar.replaceChildren(
        short(this.low), strip, short(this.high),
        heat.middle !== undefined && heat.scale === "diverging" ?
            ` · middle ${short(heat.middle)}` :
            "",
        missing ? " · hatched: no value" : "");
  }

  private listen(): void {
    const cellOf = (event: MouseEvent) => {
      if (this.heat === null) return null;
      const {cellWidth, cellHeight} = this.cells();
      const column = Math.floor((event.offsetX - LABELS_PX) / cellWidth);
      const row = Math.floor(event.offsetY / cellHeight);
      const inside = row >= 0 && column >= 0 && row < this.heat.rows.length &&
          column < this.heat.columns.length;
      return inside ? {row, column} : null;
    };
    this.canvas.addEventListener("pointermove", (event) => this.point(cellOf(event)));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
    this.canvas.addEventListener("blur", () => this.point(null));
    this.canvas.addEventListener("click", (event) => {
      const cell = cellOf(event);
      if (cell !== null) this.choose?.(cell.row, cell.column);
    });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  private key(event: KeyboardEvent): void {
    const heat = this.heat;
    if (heat === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.at ?? {row: 0, column: 0};
    const steps: {[key: string]: [
      number, number
    ]} = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
    const step = steps[event.key];
    if (step !== undefined) {
      const row =
          Math.min(Math.max(at.row + (this.at === null ? 0 : step[0]), 0), heat.rows.length - 1);
      const column = Math.min(
          Math.max(at.column + (this.at === null ? 0 : step[1]), 0), heat.columns.length - 1);
      this.point({row, column});
    } else if (event.key === "Enter" && this.at !== null) {
      this.choose?.(at.row, at.column);
    } else {
      return;
    }
    event.preventDefault();
  }

  private point(cell: {row: number; column: number}|null): void {
    if (cell?.row === this.at?.row && cell?.column === this.at?.column) return;
    this.at = cell;
    this.paint();
    const heat = this.heat;
    if (cell === null || heat === null) {
      this.readout.textContent = "";
      return;
    }
    const value = heat.values[cell.row]?.[cell.column] ?? NaN;
    const more = heat.more?.(cell.row, cell.column) ?? "";
    this.readout.textContent = `${heat.rowTitle} ${heat.rows[cell.row]}, ${heat.columnTitle} ${
                                   heat.columns[cell.column]}: ` +
        `${Number.isFinite(value) ? exact(value) : "no value"}${more === "" ? "" : `, ${more}`}`;
  }

  savePicture(): void {
    png(this.name(), this.canvas, this.name(), themed("card"), themed("text"));
  }

  /** As a drawing; cells without a value are left out. */
  saveDrawing(): void {
    const heat = this.heat;
    const draw = this.canvas.getContext("2d");
    if (heat === null || draw === null) return;
    const {width, height, cellWidth, cellHeight} = this.cells();
    const cells = heat.values.flatMap((row, r) => row.flatMap((value, c) => {
      if (!Number.isFinite(value)) return [];
      return element("rect", {
        x: LABELS_PX + c * cellWidth,
        y: r * cellHeight,
        width: cellWidth,
        height: cellHeight,
        fill: heatColor(heat.scale, this.share(value))
      });
    }));
    const anchors = {left: "start", center: "middle", right: "end"};
    const labels =
        this.labels(draw, heat, cellWidth, cellHeight)
            .map(
                ({text, x, y, align}) => element(
                    "text", {x, y: y + 4, "text-anchor": anchors[align], fill: themed("faint")},
                    escaped(text)));
    svgFile(this.name(), sheet(this.name(), width, height, [...cells, ...labels].join("")));
  }

  saveNumbers(): void {
    const heat = this.heat;
    if (heat === null) return;
    const rows: (string|number)[][] = [[heat.rowTitle, heat.columnTitle, "value"]];
    heat.values.forEach((row, r) => row.forEach((value, c) => {
      if (Number.isFinite(value))
        rows.push([heat.rows[r] as string, heat.columns[c] as string, value]);
    }));
    csv(this.name(), rows);
  }
}

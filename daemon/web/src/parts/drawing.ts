// What a line chart draws, whether on a canvas (line_chart.ts) or into a file (line_svg.ts).
import {dashes, lineColor} from "./palette";

export interface Line {
  x: number[];
  y: number[];
  min?: number[];
  max?: number[];
  color?: string;
  dash?: number[];
}
/** Behind the lines: from a step to a step. */
export interface Span {
  first: number;
  last: number;
  kind: "critical"|"warning"|"info"
}
/** Across the lines: at a step, or (`y`) a level between two steps. */
export interface Mark {
  kind: "step"|"level";
  at: number;
  from?: number;
  to?: number;
  text: string
}

export interface Drawing {
  lines: Line[];
  spans: Span[];
  marks: Mark[];
  first: number;
  last: number;
  logarithmic: boolean;
}

/** What a file or a canvas knows of its axes: from values to pixels. */
export interface Frame {
  title: string;
  width: number;
  height: number;  // of the chart, below the title
  area: {left: number; right: number; top: number; bottom: number};
  x(value: number): number;
  y(value: number): number;
  xTicks: {value: number; label: string}[];
  yTicks: {value: number; label: string}[];
}

/** Of the n-th line. */
export function styleOf(line: Line, n: number): {color: string; dash: number[]} {
  return {color: line.color ?? lineColor(n), dash: line.dash ?? dashes(n)};
}

/** Whether a value can be drawn on the axis. */
export function drawable(drawing: Drawing, value: number|undefined): value is number {
  return value !== undefined && Number.isFinite(value) && !(drawing.logarithmic && value <= 0);
}

/** Where the reader points, in every chart of a view. */
export class Cursor {
  private readonly listeners = new Set<(x: number|null) => void>();
  x: number|null = null;
  set(x: number|null): void {
    if (x === this.x) return;
    this.x = x;
    for (const listener of this.listeners) listener(x);
  }
  /** Returns what ends it. */
  listen(listener: (x: number|null) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

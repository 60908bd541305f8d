// Pictures as SVG: the sheet under a title, and line charts from the same drawing and the same
// scales as the canvas shows.
import type {Drawing, Line} from "./chart";
import {themed} from "./palette";

export interface Frame {
  title: string;
  width: number;
  height: number;  // of the chart, below the title
  area: {left: number; right: number; top: number; bottom: number};
  x(value: number): number;
  y(value: number): number;
  xTicks: {value: number; label: string}[];
  yTicks: {value: number; label: string}[];
  /** As the canvas draws them: color, dashes. */
  style(line: Line, n: number): {color: string; dash: number[]};
}

const TITLE_PX = 28;

export const escaped = (text: string): string =>
    text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
        .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "\ufffd");
const round = (value: number): string => String(Math.round(value * 100) / 100);

type Values = {
  [name: string]: string|number|undefined
};
export function element(tag: string, values: Values, content = ""): string {
  const attributes =
      Object.entries(values)
          .filter(([, value]) => value !== undefined)
          .map(
              ([name, value]) =>
                  ` ${name}="${typeof value === "number" ? round(value) : escaped(String(value))}"`)
          .join("");
  return `<${tag}${attributes}>${content}</${tag}>`;
}

/** A file: `content`, which is as large as that, under its title. */
export function sheet(title: string, width: number, height: number, content: string): string {
  const all = {width, height: height + TITLE_PX};
  const heading = element(
      "text", {x: 8, y: TITLE_PX / 2 + 5, "font-size": 13, fill: themed("text")}, escaped(title));
  return element(
      "svg",
      {xmlns: "http://www.w3.org/2000/svg", ...all, "font-family": "sans-serif", "font-size": 11},
      element("title", {}, escaped(title)) + element("rect", {...all, fill: themed("card")}) +
          heading + element("g", {transform: `translate(0 ${TITLE_PX})`}, content));
}

export function svg(frame: Frame, drawing: Drawing): string {
  const {area, x, y} = frame;
  const [wide, high] = [area.right - area.left, area.bottom - area.top];
  const ok = (value: number|undefined): value is number =>
      value !== undefined && Number.isFinite(value) && !(drawing.logarithmic && value <= 0);
  const place = (at: number, value: number) => `${round(x(at))},${round(y(value))}`;
  const inside: string[] = [];
  for (const span of drawing.spans) {
    const from = Math.max(x(span.first), area.left);
    const to = Math.min(x(span.last), area.right);
    if (to < area.left || from > area.right) continue;
    const info = span.kind === "info";
    const box = {x: from, width: Math.max(to - from, 2), y: area.top};
    if (!info)
      inside.push(
          element("rect", {...box, height: high, fill: themed(span.kind), "fill-opacity": 0.13}));
    inside.push(element(
        "rect", {...box, y: area.top + (info ? 4 : 0), height: 3, fill: themed(span.kind)}));
  }
  drawing.lines.forEach((line, n) => {
    const {min, max} = line;
    if (min === undefined || max === undefined) return;
    const places = line.x.map((_, i) => i).filter((i) => ok(min[i]) && ok(max[i]));
    const edge = (values: number[]) =>
        places.map((i) => place(line.x[i] as number, values[i] as number));
    inside.push(element("polygon", {
      points: [...edge(max), ...edge(min).reverse()].join(" "),
      fill: frame.style(line, n).color,
      "fill-opacity": 0.18
    }));
  });
  drawing.lines.forEach((line, n) => {
    const {color, dash} = frame.style(line, n);
    const points = line.x.flatMap((at, i) => ok(line.y[i]) ? [place(at, line.y[i] as number)] : []);
    inside.push(element("polyline", {
      points: points.join(" "),
      fill: "none",
      stroke: color,
      "stroke-width": 1.5,
      "stroke-dasharray": dash.join(" ") || undefined
    }));
  });
  for (const mark of drawing.marks) {
    const step = mark.kind === "step";
    const from = step ? x(mark.at) : Math.max(x(mark.from ?? -Infinity), area.left);
    const to = step ? from : Math.min(x(mark.to ?? Infinity), area.right);
    const at = step ? area.bottom : y(mark.at);
    const right = step && from > area.right - 80;
    inside.push(
        element("line", {
          x1: from,
          x2: to,
          y1: at,
          y2: step ? area.top : at,
          stroke: themed("text"),
          "stroke-dasharray": "4 3"
        }),
        element(
            "text", {
              x: from + (right ? -4 : 4),
              y: at + (step ? -6 : -4),
              "text-anchor": right ? "end" : undefined,
              fill: themed("text")
            },
            escaped(mark.text)));
  }
  const axes: string[] = [];
  for (const tick of frame.xTicks) {
    const at = x(tick.value);
    axes.push(
        element("line", {x1: at, x2: at, y1: area.top, y2: area.bottom, stroke: themed("grid")}),
        element(
            "text", {x: at, y: area.bottom + 16, "text-anchor": "middle", fill: themed("faint")},
            escaped(tick.label)));
  }
  for (const tick of frame.yTicks) {
    const at = y(tick.value);
    axes.push(
        element("line", {x1: area.left, x2: area.right, y1: at, y2: at, stroke: themed("grid")}),
        element(
            "text", {x: area.left - 8, y: at + 4, "text-anchor": "end", fill: themed("faint")},
            escaped(tick.label)));
  }
  const clip = element(
      "clipPath", {id: "area"},
      element("rect", {x: area.left, y: area.top, width: wide, height: high}));
  const border = element(
      "rect",
      {x: area.left, y: area.top, width: wide, height: high, fill: "none", stroke: themed("axis")});
  const inner = axes.join("") + element("g", {"clip-path": "url(#area)"}, inside.join("")) + border;
  return sheet(frame.title, frame.width, frame.height, clip + inner);
}

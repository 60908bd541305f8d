// A line chart as an SVG file: the same drawing and the same axes as on the canvas.
import {drawable, Drawing, Frame, Line, Mark, Span, styleOf} from "./drawing";
import {themed} from "./palette";
import {element, escaped, round, sheet} from "./svg";

export function lineSvg(frame: Frame, drawing: Drawing): string {
  const {left: x, right, top: y, bottom} = frame.area;
  const area = {x, y, width: right - x, height: bottom - y};
  const inside = [
    ...drawing.spans.map((one) => span(frame, one)),
    ...drawing.lines.map((line, n) => band(frame, drawing, line, n)),
    ...drawing.lines.map((line, n) => polyline(frame, drawing, line, n)),
    ...drawing.marks.map((one) => mark(frame, one)),
  ];
  const content = [
    element("clipPath", {id: "area"}, element("rect", area)), axes(frame),
    element("g", {"clip-path": "url(#area)"}, inside.join("")),
    element("rect", {...area, fill: "none", stroke: themed("axis")})
  ];
  return sheet(frame.title, frame.width, frame.height, content.join(""));
}

function span({area, x}: Frame, {first, last, kind}: Span): string {
  const from = Math.max(x(first), area.left);
  const to = Math.min(x(last), area.right);
  if (to < area.left || from > area.right) return "";
  const info = kind === "info";
  const box = {x: from, width: Math.max(to - from, 2), y: area.top, fill: themed(kind)};
  const shade = {...box, height: area.bottom - area.top, "fill-opacity": 0.13};
  return (info ? "" : element("rect", shade)) +
      element("rect", {...box, y: area.top + (info ? 4 : 0), height: 3});
}

const place = ({x, y}: Frame, at: number, value: number): string =>
    `${round(x(at))},${round(y(value))}`;

function band(frame: Frame, drawing: Drawing, line: Line, n: number): string {
  const {min, max} = line;
  if (min === undefined || max === undefined) return "";
  const places =
      line.x.map((_, i) => i).filter((i) => drawable(drawing, min[i]) && drawable(drawing, max[i]));
  const edge = (values: number[]) =>
      places.map((i) => place(frame, line.x[i] as number, values[i] as number));
  return element("polygon", {
    points: [...edge(max), ...edge(min).reverse()].join(" "),
    fill: styleOf(line, n).color,
    "fill-opacity": 0.18
  });
}

function polyline(frame: Frame, drawing: Drawing, line: Line, n: number): string {
  const {color, dash} = styleOf(line, n);
  const points = line.x.flatMap(
      (at, i) => drawable(drawing, line.y[i]) ? [place(frame, at, line.y[i] as number)] : []);
  return element("polyline", {
    points: points.join(" "),
    fill: "none",
    stroke: color,
    "stroke-width": 1.5,
    "stroke-dasharray": dash.join(" ") || undefined
  });
}

function mark({area, x, y}: Frame, {kind, at, from, to, text}: Mark): string {
  const step = kind === "step";
  const begin = step ? x(at) : Math.max(x(from ?? -Infinity), area.left);
  const end = step ? begin : Math.min(x(to ?? Infinity), area.right);
  const height = step ? area.bottom : y(at);
  const right = step && begin > area.right - 80;
  const line = {
    x1: begin,
    x2: end,
    y1: height,
    y2: step ? area.top : height,
    stroke: themed("text"),
    "stroke-dasharray": "4 3"
  };
  const label = {
    x: begin + (right ? -4 : 4),
    y: height + (step ? -6 : -4),
    "text-anchor": right ? "end" : undefined,
    fill: themed("text")
  };
  return element("line", line) + element("text", label, escaped(text));
}

function axes({area, x, y, xTicks, yTicks}: Frame): string {
  const grid = {stroke: themed("grid")};
  const text = {fill: themed("faint")};
  const lines = [
    ...xTicks.map(({value, label}) => {
      const at = x(value);
      return element("line", {x1: at, x2: at, y1: area.top, y2: area.bottom, ...grid}) +
          element(
                 "text", {x: at, y: area.bottom + 16, "text-anchor": "middle", ...text},
                 escaped(label));
    }),
    ...yTicks.map(({value, label}) => {
      const at = y(value);
      return element("line", {x1: area.left, x2: area.right, y1: at, y2: at, ...grid}) +
          element(
                 "text", {x: area.left - 8, y: at + 4, "text-anchor": "end", ...text},
                 escaped(label));
    })
  ];
  return lines.join("");
}

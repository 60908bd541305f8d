// A curve as a line without axes: the mean and the range of each bucket.
import {short} from "../base/format";
import type {Curve} from "../base/series";
import {h} from "./dom";
import {faded, themed} from "./palette";

const [WIDTH_PX, HEIGHT_PX] = [140, 34];
// One spike must not flatten the rest: the top is this share of the buckets' maxima.
const TOP_SHARE = 0.98;

/** From steps and values to pixels. */
export function scaleOf(curve: Curve): {x(step: number): number; y(value: number): number} {
  const sorted = [...curve.max].sort((a, b) => a - b);
  const most = sorted[Math.floor(TOP_SHARE * (sorted.length - 1))] as number;
  const top = Math.max(most, ...curve.mean);
  const bottom = Math.min(...curve.min);
  const [from, to] = [curve.first[0] as number, curve.last[curve.last.length - 1] as number];
  return {
    x: (step) => 1 + (WIDTH_PX - 2) * (to > from ? (step - from) / (to - from) : 0),
    y: (value) => HEIGHT_PX - 2 -
        (HEIGHT_PX - 4) * (top > bottom ? (Math.min(value, top) - bottom) / (top - bottom) : 0.5)
  };
}

/** `name` says what the curve is. */
export function sparkline(name: string, curve: Curve): HTMLCanvasElement {
  const ratio = devicePixelRatio;
  const text = `${name}: ${short(curve.mean[0])} at step ${curve.first[0]}, newest ` +
      short(curve.mean[curve.mean.length - 1]);
  const canvas = h("canvas", {
    width: WIDTH_PX * ratio,
    height: HEIGHT_PX * ratio,
    class: "spark",
    role: "img",
    "aria-label": text,
    title: text
  });
  const draw = canvas.getContext("2d");
  if (draw === null || curve.first.length === 0) return canvas;
  draw.scale(ratio, ratio);
  const {x, y} = scaleOf(curve);
  const color = themed("accent");
  const steps = curve.first;
  draw.fillStyle = faded(color, 0.25);
  draw.beginPath();
  steps.forEach((step, i) => draw.lineTo(x(step), y(curve.max[i] as number)));
  for (let i = steps.length - 1; i >= 0; --i)
    draw.lineTo(x(steps[i] as number), y(curve.min[i] as number));
  draw.fill();
  draw.strokeStyle = color;
  draw.lineWidth = 1.5;
  draw.beginPath();
  steps.forEach((step, i) => draw.lineTo(x(step), y(curve.mean[i] as number)));
  draw.stroke();
  return canvas;
}

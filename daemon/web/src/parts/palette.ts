// Colours that remain different for colour-blind eyes: lines after Okabe and Ito, heat maps cividis
// (low to high) and blue to orange (below and above a middle). The theme's own are in style.css.

const LIGHT =
    ["#0072b2", "#d55e00", "#009e73", "#8f5a99", "#b07c00", "#1f77a8", "#555555", "#a04060"];
const DARK =
    ["#56b4e9", "#ff9f40", "#3fd0a4", "#d79be0", "#f0e442", "#9ecbff", "#bbbbbb", "#ff8fa3"];

export function dark(): boolean {
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Of the n-th line; lines beyond the palette begin again, dashed (`dashes`). */
export function lineColor(n: number): string {
  const colors = dark() ? DARK : LIGHT;
  return colors[n % colors.length] as string;
}

export function dashes(n: number): number[] {
  const round = Math.floor(n / LIGHT.length);
  return round === 0 ? [] : round === 1 ? [6, 3] : [2, 3];
}

/** `--name` of style.css as it is in force. */
export function themed(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export function faded(color: string, alpha: number): string {
  const value = parseInt(color.slice(1), 16);
  return `rgba(${value >> 16}, ${(value >> 8) & 255}, ${value & 255}, ${alpha})`;
}

type Rgb = readonly[number, number, number];
const CIVIDIS: Rgb[] = [
  [0, 32, 76], [0, 48, 111], [57, 72, 108], [94, 95, 110], [124, 123, 120], [155, 150, 119],
  [188, 180, 108], [223, 210, 86], [255, 234, 70]
];
const DIVERGING: Rgb[] = [
  [5, 48, 97], [33, 113, 181], [107, 174, 214], [198, 219, 239], [240, 240, 240], [253, 208, 162],
  [253, 141, 60], [217, 72, 1], [127, 39, 4]
];

export type Scale = "sequential"|"diverging";

/** `share` from 0 (lowest) to 1. */
export function heatColor(scale: Scale, share: number): string {
  const table = scale === "sequential" ? CIVIDIS : DIVERGING;
  const at = Math.min(Math.max(share, 0), 1) * (table.length - 1);
  const low = Math.min(Math.floor(at), table.length - 2);
  const part = at - low;
  const [from, to] = [table[low] as Rgb, table[low + 1] as Rgb];
  const mix = (i: 0|1|2) => Math.round(from[i] + (to[i] - from[i]) * part);
  return `rgb(${mix(0)}, ${mix(1)}, ${mix(2)})`;
}

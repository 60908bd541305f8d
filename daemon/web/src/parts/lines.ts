// Curves as lines of a chart.
import type {Curve} from "../base/series";
import type {Line} from "./drawing";

/** Where a bucket is drawn. */
const middle = (curve: Curve, i: number): number =>
    ((curve.first[i] as number) + (curve.last[i] as number)) / 2;

export function lineOf(curve: Curve): Line {
  const x = curve.first.map((_, i) => middle(curve, i));
  const band = curve.bucketSteps > 1;
  return {x, y: curve.mean, min: band ? curve.min : undefined, max: band ? curve.max : undefined};
}

/** The entry that covers `x`, or the nearest one before it; -1 where there is none. */
export function indexAt(curve: Curve, x: number): number {
  let low = 0;
  let high = curve.first.length;
  while (low < high) {
    const half = (low + high) >> 1;
    if ((curve.first[half] as number) <= x)
      low = half + 1;
    else
      high = half;
  }
  return low - 1;
}

// Fewer values show a peak well on a linear axis.
const LOG_LEAST_VALUES = 40;
const LOG_LEAST_RATIO = 100;  // of the highest value to the median

/** Whether a linear axis would show one peak and a flat line. */
export function wantsLog(curves: Curve[]): boolean {
  let high = 0;
  const all: number[] = [];
  for (const curve of curves) {
    for (let i = 0; i < curve.mean.length; ++i) {
      if (!((curve.min[i] as number) > 0)) return false;
      high = Math.max(high, curve.max[i] as number);
      all.push(curve.mean[i] as number);
    }
  }
  all.sort((a, b) => a - b);
  return all.length >= LOG_LEAST_VALUES &&
      high > LOG_LEAST_RATIO * (all[all.length >> 1] as number);
}

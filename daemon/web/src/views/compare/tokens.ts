// Where a step lies on an axis of tokens, from a series of tokens per step.
import type {Curve} from "../../base/series";
import {indexAt} from "../../parts/lines";

export interface Tokens {
  curve: Curve;    // of tokens per step
  seen: number[];  // up to the end of each of its buckets
}

export function tokensOf(perStep: Curve): Tokens {
  let seen = 0;
  let before = (perStep.first[0] ?? 0) - 1;
  return {
    curve: perStep,
    seen: perStep.last.map((last, i) => {
      seen += (perStep.mean[i] as number) * (last - before);
      before = last;
      return seen;
    })
  };
}

/** Tokens seen up to a step, in proportion between steps where they are known. NaN: none are. */
export function tokensAt(tokens: Tokens|null, step: number): number {
  if (tokens === null || tokens.seen.length === 0) return NaN;
  const {curve: {first, last}, seen} = tokens;
  let i = indexAt(tokens.curve, step);
  if (i < 0) return 0;
  if ((last[i] as number) < step && i + 1 < seen.length) ++i;
  const from = i === 0 ? (first[0] as number) - 1 : last[i - 1] as number;
  const low = i === 0 ? 0 : seen[i - 1] as number;
  const share = Math.min(Math.max((step - from) / ((last[i] as number) - from), 0), 1);
  return low + ((seen[i] as number) - low) * share;
}

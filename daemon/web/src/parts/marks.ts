// What alerts and attempts of a run put into its plots: spans behind the lines, marks across them.
import type {Alert, Run} from "../base/api";
import type {Spec} from "../base/series";
import type {Mark, Span} from "./drawing";

/**
 * Alert spans of a run: those of critical and warning alerts in every plot, single indicators
 * (info) only in the plot of their indicator. `last`: where alerts that are not over end.
 */
export function spansOf(alerts: Alert[], last: number, indicator?: string): Span[] {
  const spans: Span[] = [];
  for (const alert of alerts) {
    const about = alert.indicator === indicator;
    if (alert.severity === "info" && !about) continue;
    spans.push({
      first: Number(alert.pending_step),
      last: Number(alert.resolved_step ?? last),
      kind: alert.severity === "critical" || alert.severity === "warning" ? alert.severity : "info"
    });
  }
  return spans;
}

/** The baseline that alerts of an indicator were judged against, while they lasted. */
export function levels(alerts: Alert[], spec: Spec, end: number): Mark[] {
  const alert =
      alerts.find((one) => one.indicator === spec.indicator && one.baseline !== undefined);
  if (alert?.baseline === undefined) return [];
  return [{
    kind: "level",
    at: alert.baseline,
    from: Number(alert.pending_step),
    to: Number(alert.resolved_step ?? end),
    text: "baseline"
  }];
}

/** Where lines of different attempts meet. */
export function attemptMarks(run: Run): Mark[] {
  return run.attempts.filter((one) => one.number > 1 && one.first_step !== undefined)
      .map((one) => ({kind: "step", at: Number(one.first_step), text: `attempt ${one.number}`}));
}

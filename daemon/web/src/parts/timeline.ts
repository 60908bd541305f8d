// What happened to a run along its steps: attempts (and what of them was given up), declared
// events, alerts. One row each, above the plots and in their range.
import {url} from "../base/address";
import type {Alert, Run, RunEvent} from "../base/api";
import {headline, place, whole, word} from "../base/format";
import {stepsOf} from "../base/steps";
import {h, link, replace} from "./dom";

const RULES_MOST = 8;

interface Bar {
  first: number;
  last: number;
  kind: string;
  text: string;
  href?: string;
  given_up?: boolean
}

export class Timeline {
  readonly root = h("section", {class: "timeline", "aria-label": "Timeline"});

  draw(run: Run, alerts: Alert[], events: RunEvent[], first: number, last: number): void {
    const width = Math.max(last - first, 1);
    const row = (title: string, bars: Bar[]) => {
      const lane = h("div", {class: "lane"});
      for (const bar of bars) {
        if (bar.last < first || bar.first > last) continue;
        const from = Math.max(bar.first, first);
        const to = Math.min(bar.last, last);
        const classes = `bar ${bar.kind}${bar.given_up ? " given-up" : ""}`;
        const made = bar.href === undefined ?
            h("span", {class: classes, title: bar.text}, bar.text) :
            link(bar.href, {class: classes, title: bar.text}, bar.text);
        made.style.left = `${100 * (from - first) / width}%`;
        made.style.width = `${Math.max(100 * (to - from) / width, 0.3)}%`;
        lane.append(made);
      }
      return h(
          "div", {class: "timeline-row"}, h("span", {class: "lane-title", title}, title), lane);
    };
    const rows = [...this.attempts(run, row)];
    if (events.length > 0) rows.push(row("events", events.map((event) => this.event(event))));
    const end = Math.max(last, stepsOf(run)?.last ?? last);
    rows.push(...this.alerts(alerts, first, last, end, row));
    replace(this.root, ...rows);
  }

  private attempts(run: Run, row: (title: string, bars: Bar[]) => HTMLElement): HTMLElement[] {
    if (run.attempts.length < 2) return [];
    return run.attempts.map((attempt) => {
      const text = `attempt ${attempt.number}`;
      if (attempt.first_step === undefined || attempt.last_step === undefined) return row(text, []);
      const [from, to] = [Number(attempt.first_step), Number(attempt.last_step)];
      // From where a younger attempt went over the same steps again, this one's no longer count.
      let kept = to;
      for (const younger of run.attempts) {
        if (younger.number > attempt.number && younger.first_step !== undefined) {
          kept = Math.min(kept, Number(younger.first_step) - 1);
        }
      }
      const bars: Bar[] = [];
      if (kept >= from) {
        bars.push(
            {first: from, last: kept, kind: "attempt", text: `${text}: steps ${from} to ${kept}`});
      }
      if (kept < to) {
        bars.push({
          first: Math.max(kept + 1, from),
          last: to,
          kind: "attempt",
          given_up: true,
          text: `${text}: steps ${Math.max(kept + 1, from)} to ${to}, gone over again later`
        });
      }
      return row(text, bars);
    });
  }

  private event(event: RunEvent): Bar {
    const step = Number(event.event.step);
    const what = [word(event.event.kind, "EVENT_KIND_"), event.event.name, event.event.detail];
    return {
      first: step,
      last: step,
      kind: "event",
      text: `step ${whole(step)}: ${what.filter((part) => part !== "").join(", ")}`
    };
  }

  private alerts(
      alerts: Alert[], from: number, to: number, end: number,
      row: (title: string, bars: Bar[]) => HTMLElement): HTMLElement[] {
    const byRule = new Map<string, Alert[]>();
    for (const alert of alerts) {
      if (alert.state === "ALERT_STATE_PENDING" || Number(alert.pending_step) > to ||
          Number(alert.resolved_step ?? end) < from)
        continue;
      const list = byRule.get(alert.rule);
      if (list === undefined)
        byRule.set(alert.rule, [alert]);
      else
        list.push(alert);
    }
    const grave = (list: Alert[]) =>
        Math.min(...list.map((alert) => ["critical", "warning"].indexOf(alert.severity) + 1 || 3));
    const began = (list: Alert[]) => Math.min(...list.map((alert) => Number(alert.pending_step)));
    const ordered = [...byRule].sort(([, a], [, b]) => grave(a) - grave(b) || began(a) - began(b));
    const rows =
        ordered.slice(0, RULES_MOST)
            .map(
                ([rule, list]) => row(
                    rule, list.map((alert) => ({
                                     first: Number(alert.pending_step),
                                     last: Number(alert.resolved_step ?? end),
                                     kind: alert.severity,
                                     text: `${alert.severity}: ${headline(alert)}, ${
                                         place(alert)}, since step ${whole(alert.pending_step)}`,
                                     href: url("alert", {run: alert.run, id: alert.id})
                                   }))));
    const more = ordered.length - rows.length;
    if (more > 0)
      rows.push(h("div", {class: "faint"}, `and ${more} more ${more === 1 ? "rule" : "rules"}`));
    return rows;
  }
}

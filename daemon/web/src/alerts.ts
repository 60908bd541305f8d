// Alerts of all runs or of one: what fires first, the gravest first; what is over below.
import {Alert, get, Run, RunEvent} from "./api";
import {alertCard, findRun, runHead, select} from "./controls";
import {button, h, link, Memo, notice, replace} from "./dom";

import type {Shared, View} from "./live";
import {stepsOf} from "./series";
import {Timeline} from "./timeline";
import {change, parameter, url} from "./url";

const SHOWN_FIRST = 40;

export function alertsView(shared: Shared): View {
  const wanted = parameter("run");
  const body = h("div", {});
  const timeline = new Timeline();
  const count = h("p", {class: "faint"});
  const info = h("input", {
    type: "checkbox",
    change: () => {
      change({info: info.checked ? 1 : null});
      draw();
    }
  });
  const severity = select("Severity", (value) => {
    change({severity: value});
    draw();
  });
  const root = h(
      "div", {}, wanted === null ? h("h1", {}, "Alerts") : runHead(wanted, "alerts"),
      h("div", {class: "toolbar"}, severity.root,
        h("label", {class: "field inline"}, info, h("span", {}, "show single indicators (info)"))),
      timeline.root, count, body);
  const [memo, timelineMemo] = [new Memo(), new Memo()];
  let alerts: Alert[]|null = null;
  let runs = 0;
  let shownMost = SHOWN_FIRST;
  address();

  function address(): void {
    info.checked = parameter("info") === "1";
    severity.set(
        [["", "all"], ["critical", "critical"], ["warning", "warning"]],
        parameter("severity") ?? "");
  }

  function draw(): void {
    if (alerts === null) return;
    const only = parameter("severity");
    const shown = alerts.filter(
        (alert) => (alert.severity !== "info" || info.checked) &&
            (only === null || alert.severity === only));
    if (!memo.changed(shown, shownMost, alerts.length, runs)) return;
    const hidden = alerts.length - shown.length;
    const of = (state: string) => shown.filter((alert) => alert.state === `ALERT_STATE_${state}`);
    const [firing, pending, over] = [of("FIRING"), of("PENDING"), of("RESOLVED")];
    count.textContent = `${firing.length} firing, ${over.length} over` +
        (hidden > 0 ? `, ${hidden} more not shown` : "");
    const part = (title: string, list: Alert[]) => list.length === 0 ?
        null :
        h("section", {}, h("h2", {}, title),
          h("div", {class: "cards"},
            ...list.slice(0, shownMost).map((alert) => alertCard(alert, wanted === null))));
    replace(
        body,
        firing.length === 0 &&
            notice(
                "empty", "Nothing fires.",
                runs === 0 ? "No run has reported yet, so there is nothing to judge." :
                             "What the rules judge is in the list of ",
                runs > 0 && link(url("rules"), {}, "rules"),
                runs > 0 &&
                    (hidden > 0 ? ". Single indicators that moved can be shown above." : ".")),
        part("Firing", firing), part("Pending", pending), part("Over", over),
        shown.length > shownMost && button(`Show all ${shown.length}`, {
          click: () => {
            shownMost = Infinity;
            draw();
          }
        }));
  }

  return {
    title: wanted === null ? "Alerts" : `Alerts of ${wanted}`,
    root,
    async refresh(signal) {
      if (wanted !== null) {
        const run = await findRun(wanted, signal);
        if (run instanceof HTMLElement) {
          replace(body, run);
          return;
        }
        const [{alerts: own}, {events}] = await Promise.all([
          get<{alerts: Alert[]}>("alerts", {run: wanted}, signal),
          get<{events: RunEvent[]}>("events", {run: wanted}, signal)
        ]);
        const steps = stepsOf(run);
        if (steps !== null && timelineMemo.changed(run.attempts, own, events)) {
          timeline.draw(run, own, events, steps.first, steps.last);
        }
        [alerts, runs] = [own, 1];
        await shared.fresh;
        draw();
        return;
      }
      const [answer, known] = await Promise.all([
        get<{alerts: Alert[]}>("alerts", {}, signal), get<{runs: Run[]}>("runs", {}, signal),
        shared.fresh
      ]);
      alerts = answer.alerts;
      runs = known.runs.length;
      draw();
    },
    live: () => (alerts ?? []).length > 0 || (shared.status?.streams ?? 0) > 0,
    readdress() {
      address();
      draw();
    },
  };
}

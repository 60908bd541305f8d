// The parts of the view of an alert: what it is, what to do, who took it on, the evidence.
import {url} from "../../base/address";
import type {Alert, Evidence, Silence} from "../../base/api";
import {alertState, difference, headline, place, short, time, whole} from "../../base/format";
import {page, severityBadge} from "../../parts/controls";
import {cell, fact, h, link, name, notice, table} from "../../parts/dom";
import type {Context} from "./fetch";
import {evidenceOf, stepsToLookAt} from "./state";

export function head(alert: Alert): HTMLElement {
  const firing = alert.state === "ALERT_STATE_FIRING";
  return h(
      "div", {class: "alert-head"}, severityBadge(alert.severity),
      h("span", {class: `badge ${firing ? "firing" : "quiet"}`}, alertState(alert.state)),
      h("h1", {}, headline(alert)));
}

export function facts(alert: Alert, {beganNs}: Context): HTMLElement {
  const over = alert.resolved_step === undefined ? "" : ` to ${whole(alert.resolved_step)}`;
  const began = time(beganNs);
  return h(
      "dl", {class: "facts"},
      fact(
          "Run", link(url("run", {run: alert.run}), {}, name(alert.run)),
          ` attempt ${alert.attempt}`),
      fact("Where", place(alert)),
      fact(
          "Since step", h("b", {}, whole(alert.pending_step)), over,
          alert.firing_step !== undefined && ` · fired at ${whole(alert.firing_step)}`,
          began !== "" && h("div", {class: "faint"}, began)),
      alert.indicator !== "" && value(alert), fact("Probable fault", alert.fault || "not named"),
      fact(
          "Last healthy step", h("b", {}, whole(alert.last_healthy_step)),
          alert.checkpoint !== "" && h("div", {}, "checkpoint ", h("bdi", {}, alert.checkpoint))));
}

function value(alert: Alert): HTMLElement {
  const by = difference(alert);
  return fact(
      "Value", short(alert.value),
      alert.worst_step !== undefined && ` at worst, at step ${whole(alert.worst_step)}`,
      alert.baseline !== undefined && ` against ${short(alert.baseline)} before`,
      by !== "" && h("b", {}, ` ${by}`));
}

export function whatToDo(alert: Alert): HTMLElement {
  const {runbook} = alert;
  const outside = /^https?:\/\//.test(runbook);
  return h(
      "section", {class: "card todo"},
      h("h2", {}, alert.resolved_step === undefined ? "What to do" : "What was advised"),
      h("p", {}, alert.description || "The rule says nothing about it."),
      runbook !== "" &&
          h("p", {}, "Runbook: ",
            outside ? h("a", {href: runbook, rel: "noreferrer noopener"}, runbook) :
                      h("code", {}, runbook)),
      alert.last_healthy_step !== undefined &&
          h("p", {},
            link(
                url("run", {run: alert.run, ...stepsToLookAt(alert)}), {},
                "Look at the steps around its beginning")));
}

export function takenOn({acknowledgement}: Alert): HTMLElement|null {
  if (acknowledgement === undefined) return null;
  const {by, why, time_unix_ns} = acknowledgement;
  return h(
      "p", {class: "card"}, "Taken on by ", h("b", {}, h("bdi", {}, by)), `, ${time(time_unix_ns)}`,
      why !== "" && ": ", h("bdi", {}, why));
}

export function silenced(silence: Silence): HTMLElement {
  return h(
      "p", {class: "card"}, "Silenced until ", time(silence.ends_unix_ns), " by ",
      h("bdi", {}, silence.by), ": ", h("code", {}, silence.matchers.join(", ")));
}

export function evidence(alert: Alert): HTMLElement|null {
  const all = evidenceOf(alert);
  if (all.length === 0) return null;
  const titles = ["Since step", "What moved", "Indicator", "Where", "Speaks", "How"];
  return h(
      "section", {}, h("h2", {}, "Evidence, first movers first"),
      table("evidence", titles, all.map(evidenceRow)));
}

function evidenceRow(one: Evidence): HTMLElement {
  const moved = one.step !== undefined;
  return h(
      "tr", {class: moved ? "" : "faint"}, cell("Since step", moved ? whole(one.step) : "–"),
      cell("What moved", h("bdi", {}, one.rule)), cell("Indicator", h("code", {}, one.indicator)),
      cell("Where", moved ? place({layers: one.layers}) : ""),
      cell("Speaks", one.supports ? "for it" : "against it"), cell("How", one.text));
}

export function missing(run: string|null): HTMLElement {
  return page(
      "No such alert",
      notice(
          "error", "There is no such alert.",
          "It may belong to a run that was deleted, or retention has dropped it. See ",
          link(url("alerts"), {}, "all alerts"), run !== null && " or ",
          run !== null && link(url("run", {run}), {}, "its run"), "."));
}

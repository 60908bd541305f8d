// Pieces that several views show: badges, the head of a run, choosers.
import {url} from "../base/address";
import type {Alert} from "../base/api";
import {alertState, difference, headline, place, runState, short, whole} from "../base/format";
import type {NoRun} from "../base/runs";
import {h, link, name, notice, Stage} from "./dom";

export function severityBadge(severity: string): HTMLElement {
  return h("span", {class: `badge ${severity}`}, severity);
}

export function stateBadge(state: string): HTMLElement {
  const text = runState(state);
  return h("span", {class: `badge state-${text}`}, text);
}

export function alertLink(alert: Alert, ...content: (Node|string)[]): HTMLAnchorElement {
  return link(url("alert", {run: alert.run, id: alert.id}), {}, ...content);
}

/** One alert in a few lines: what, where, since when, how far off, what is healthy. */
export function alertCard(alert: Alert, withRun: boolean): HTMLElement {
  const firing = alert.state === "ALERT_STATE_FIRING";
  const value = alert.indicator === "" ?
      null :
      h("div", {}, h("code", {}, alert.indicator), ` ${short(alert.value)}`,
        alert.baseline !== undefined &&
            ` against ${short(alert.baseline)}${difference(alert) && ` (${difference(alert)})`}`);
  const until = alert.resolved_step === undefined ? "" : ` to ${whole(alert.resolved_step)}`;
  return h(
      "article", {class: `card alert ${alert.severity}${firing ? "" : " over"}`},
      h("header", {}, severityBadge(alert.severity),
        !firing && h("span", {class: "badge quiet"}, alertState(alert.state)),
        h("h3", {}, alertLink(alert, headline(alert)))),
      h("div", {class: "facts-line"},
        withRun && h("span", {}, "run ", link(url("run", {run: alert.run}), {}, name(alert.run))),
        h("span", {}, place(alert)),
        h("span", {}, `${firing ? "since step" : "step"} ${whole(alert.pending_step)}${until}`),
        alert.last_healthy_step !== undefined &&
            h("span", {}, "last healthy step ", h("b", {}, whole(alert.last_healthy_step)))),
      value,
      alert.acknowledgement !== undefined &&
          h("div", {class: "faint"}, "taken on by ", h("bdi", {}, alert.acknowledgement.by)),
      alert.silenced_by.length > 0 && h("div", {class: "faint"}, "silenced: nobody is told"));
}

/** What every page about one run begins with. */
export function runHead(run: string, here: string): HTMLElement {
  const tabs: [string, string][] =
      [["run", "Overview"], ["attention", "Attention"], ["router", "Router"], ["alerts", "Alerts"]];
  return h(
      "div", {class: "run-head"}, h("h1", {}, name(run)),
      h("nav", {class: "tabs", "aria-label": "Views of this run"},
        ...tabs.map(
            ([view, text]) =>
                link(url(view, {run}), {"aria-current": view === here ? "page" : undefined}, text)),
        link(
            url("compare", {a: run}), {"aria-current": here === "compare" ? "page" : undefined},
            "Compare")));
}

/** In place of a view of a run that is not there. */
export function showNoRun(stage: Stage, none: NoRun): void {
  stage.show(`no run ${JSON.stringify(none.there.map((run) => run.name))}`, () => [noRun(none)]);
}

function noRun({asked, there}: NoRun): HTMLElement {
  if (asked === null) {
    return page(
        "Which run?",
        notice(
            "empty", "No run is chosen.", "Choose one in ",
            link(url("runs"), {}, "the list of runs"), "."));
  }
  return page(
      "No such run",
      notice(
          "error", "There is no run of this name.", h("p", {}, name(asked)),
          h("p", {}, "It may have been deleted, or renamed. There are:"),
          h("ul", {},
            ...there.slice(0, 20).map(
                (one) => h("li", {}, link(url("run", {run: one.name}), {}, name(one.name))))),
          link(url("runs"), {}, "All runs")));
}

/** A page that is nothing but a notice. */
export function page(title: string, content: HTMLElement): HTMLElement {
  return h("div", {}, h("h1", {}, title), content);
}

export interface Select {
  root: HTMLElement;
  value(): string;
  /** Options as [value, text]. */
  set(options: [string, string][], value: string): void;
}

/** A choice that keeps its options up to date. */
export function select(label: string, change: (value: string) => void): Select {
  const list: HTMLSelectElement = h("select", {change: () => change(list.value)});
  let drawn = "";
  return {
    root: h("label", {class: "field"}, h("span", {}, label), list),
    value: () => list.value,
    set(options, value) {
      const text = JSON.stringify(options);
      if (text !== drawn) {
        drawn = text;
        list.replaceChildren(...options.map(([one, shown]) => h("option", {value: one}, shown)));
      }
      if (list.value !== value) list.value = value;
    },
  };
}

export interface StepInput {
  root: HTMLElement;
  /** `hint` stands in the empty field. */
  set(value: number|null, hint: string): void;
}

/** A step to type; empty: no limit. */
export function stepInput(label: string, change: (value: number|null) => void): StepInput {
  const input: HTMLInputElement = h("input", {
    type: "text",
    inputmode: "numeric",
    pattern: "\\d*",
    size: 9,
    change: () => {
      const text = input.value.replace(/\s/g, "");
      if (text === "")
        change(null);
      else if (/^\d{1,15}$/.test(text))
        change(Number(text));
      else
        input.setCustomValidity("a step: digits only"), input.reportValidity();
    },
    input: () => input.setCustomValidity("")
  });
  return {
    root: h("label", {class: "field"}, h("span", {}, label), input),
    set(value, hint) {
      input.placeholder = hint;
      if (document.activeElement !== input) input.value = value === null ? "" : String(value);
    },
  };
}

/** Options whose values are their texts. */
export function plain(values: (string|number)[]): [string, string][] {
  return values.map((one) => [String(one), String(one)]);
}

// The parts of the view of a run: facts, what fires, the range, the chooser of one more plot.
import {url} from "../../base/address";
import type {Alert, Judged, Run, Series} from "../../base/api";
import {short, time, whole} from "../../base/format";
import {Memo} from "../../base/memo";
import type {Spec} from "../../base/series";
import {isLive, Pace, Steps} from "../../base/steps";
import {alertCard, plain, select, stateBadge, stepInput} from "../../parts/controls";
import {button, fact, h, link, replace} from "../../parts/dom";
import {choicesFor, shapeOf} from "./state";

const CARDS_MOST = 4;

/** Silence of rules that have judged nothing is not health. */
function judgedText(judged: Judged|undefined): string {
  if (judged?.from_step === undefined) return "nothing yet";
  return `${judged.rules_judging} of ${judged.rules} rules, ${whole(judged.rows)} rows from step ${
      whole(judged.from_step)}`;
}

export class Facts {
  readonly root = h("dl", {class: "facts"});
  private readonly memo = new Memo();

  draw(run: Run, pace: Pace): void {
    if (!this.memo.changed(run, pace)) return;
    const attempt = run.attempts[run.attempts.length - 1];
    const newest = time(pace.newestNs);
    const labels = Object.entries(run.labels).sort();
    replace(
        this.root,
        fact(
            "State", stateBadge(run.state),
            attempt !== undefined && isLive(run) &&
                ` ${attempt.ranks_connected} of ${attempt.world_size} ranks`),
        fact("Last step", h("b", {}, whole(run.last_step)), newest !== "" && ` · ${newest}`),
        fact("Speed", pace.stepsPerSecond === null ? "–" : `${short(pace.stepsPerSecond)} steps/s`),
        fact("Judged", judgedText(attempt?.judged)),
        fact("Attempts", String(run.attempts.length)),
        fact("Model", shapeOf(run) || "not declared"), fact("Series", whole(run.series)),
        ...labels.map(([key, value]) => fact(key, h("bdi", {}, value))));
  }
}

/** The worst alerts that fire, and how many others do. */
export class Firing {
  readonly root = h("section", {class: "cards", "aria-label": "Firing alerts"});
  private readonly memo = new Memo();

  draw(run: string, alerts: Alert[]): void {
    const firing = alerts.filter((alert) => alert.state === "ALERT_STATE_FIRING");
    if (!this.memo.changed(firing)) return;
    const grave = firing.filter((alert) => alert.severity !== "info");
    const info = firing.length - grave.length;
    replace(
        this.root, h("h2", {class: "visually-hidden"}, "What fires"),
        ...grave.slice(0, CARDS_MOST).map((alert) => alertCard(alert, false)),
        h("p", {class: "faint"}, grave.length === 0 && "Nothing here asks for action. ",
          grave.length > CARDS_MOST && `${grave.length - CARDS_MOST} more fire. `,
          info > 0 &&
              `${info} single ${info === 1 ? "indicator has" : "indicators have"} moved (info). `,
          link(
              url("alerts", {run, info: info > 0 && grave.length === 0 ? 1 : null}), {},
              "All alerts of this run")));
  }
}

interface RangeActions {
  scale(factor: number): void;
  move(share: number): void;
  /** Null: no limit on that side. */
  zoom(to: {first: number|null; last: number | null}): void;
}

/** Chooses the steps. */
export class RangeBar {
  readonly root: HTMLElement;
  private readonly first;
  private readonly last;
  private asked: {first: number|null; last: number | null} = {first: null, last: null};

  constructor({scale, move, zoom}: RangeActions) {
    this.first = stepInput("From step", (first) => zoom({...this.asked, first}));
    this.last = stepInput("to step", (last) => zoom({...this.asked, last}));
    this.root =
        h("div", {class: "toolbar"}, this.first.root, this.last.root,
          button("Zoom in", {click: () => scale(0.5)}), button("Zoom out", {click: () => scale(2)}),
          button("Earlier", {click: () => move(-0.5)}), button("Later", {click: () => move(0.5)}),
          button("Everything", {click: () => zoom({first: null, last: null})}),
          h("span", {class: "faint hint"}, "Drag in a plot to zoom, double-click for everything."));
  }

  draw(asked: {first: number|null; last: number | null}, all: Steps|null): void {
    this.asked = asked;
    this.first.set(asked.first, all === null ? "" : String(all.first));
    this.last.set(asked.last, all === null ? "" : String(all.last));
  }
}

/** Chooses one more plot. */
export class Adder {
  readonly root: HTMLElement;
  private choice: Spec = {indicator: ""};
  private series = new Map<string, Series[]>();
  private readonly indicator = select("Indicator", (value) => this.choose({indicator: value}));
  private readonly layer = select(
      "Layer",
      (value) => this.choose(
          {indicator: this.choice.indicator, layer: value === ""? undefined: Number(value)}));
  private readonly unit = select(
      "Head, expert or name",
      (value) => this.choose({...this.choice, unit: value === ""? undefined: value}));

  constructor(add: (spec: Spec) => void) {
    this.root =
        h("div", {class: "toolbar"}, this.indicator.root, this.layer.root, this.unit.root,
          button("Add plot", {class: "primary", click: () => add(this.choice)}));
  }

  draw(series: Map<string, Series[]>): void {
    this.series = series;
    this.choose(this.choice);
  }

  private choose(wanted: Spec): void {
    const {choice, indicators, layers, units} = choicesFor(wanted, this.series);
    this.choice = choice;
    this.indicator.set(plain(indicators), choice.indicator);
    this.layer.set([["", "all"], ...plain(layers)], String(choice.layer ?? ""));
    this.unit.set([["", "all"], ...units], choice.unit ?? "");
    this.layer.root.hidden = layers.length === 0;
    this.unit.root.hidden = units.length < 2;
  }
}

// One run: its state, what fires, what happened along its steps, and plots that share range and
// cursor.
import {Alert, get, Run, RunEvent, Step} from "./api";
import {Cursor, Mark} from "./chart";
import {alertCard, layersOf, runHead, select, stateBadge, stepInput} from "./controls";
import {button, h, link, Memo, notice, replace} from "./dom";

import {short, time, whole} from "./format";
import type {Shared, View} from "./live";
import {Plot, spansOf} from "./plot";
import {Spec, parseSpec, specText, stepsOf} from "./series";
import {Timeline} from "./timeline";
import {change, parameter, parameters, stepParameter, url} from "./url";
import {WatchedRun} from "./watched_run";

const ALWAYS = ["train.loss", "train.grad_norm", "train.lr"];
const RATE_STEPS = 20;

export function runView(shared: Shared): View {
  const wanted = parameter("run");
  const root = h("div", {}, notice("wait", "Loading the run …"));
  const facts = h("dl", {class: "facts"});
  const firing = h("section", {class: "cards", "aria-label": "Firing alerts"});
  const grid = h("section", {class: "plots", "aria-label": "Plots"});
  const timeline = new Timeline();
  const cursor = new Cursor();
  const plots = new Map<string, Plot>();
  const [factsMemo, firingMemo, timelineMemo, plotsMemo] =
      [new Memo(), new Memo(), new Memo(), new Memo()];
  const watched = new WatchedRun(wanted, root, shared);
  let events: RunEvent[] = [];
  let ready = false;

  const first =
      stepInput("From step", (value) => zoom({first: value, last: stepParameter("last")}));
  const last = stepInput("to step", (value) => zoom({first: stepParameter("first"), last: value}));
  const range =
      h("div", {class: "toolbar"}, first.root, last.root,
        button("Zoom in", {click: () => scale(0.5)}), button("Zoom out", {click: () => scale(2)}),
        button("Earlier", {click: () => pan(-0.5)}), button("Later", {click: () => pan(0.5)}),
        button("Everything", {click: () => zoom({first: null, last: null})}),
        h("span", {class: "faint hint"}, "Drag in a plot to zoom, double-click for everything."));

  let choice: Spec = {indicator: ""};
  const indicator = select("Indicator", (value) => {
    choice = {indicator: value};
    choices();
  });
  const layer = select("Layer", (value) => {
    choice = {indicator: choice.indicator, layer: value === "" ? undefined : Number(value)};
    choices();
  });
  const unit = select("Head, expert or name", (value) => {
    choice.unit = value === "" ? undefined : value;
  });
  const adder =
      h("div", {class: "toolbar"}, indicator.root, layer.root, unit.root, button("Add plot", {
          class: "primary",
          click: () => {
            const added = specText(choice);
            show([...shown().filter((one) => one !== added), added]);
          }
        }));

  function zoom(to: {first: number|null; last: number | null}|null): void {
    change({first: to?.first ?? null, last: to?.last ?? null}, true);
    redraw();
  }

  /** Another range of what is known, without asking for the rest anew. */
  function redraw(): void {
    if (watched.run === null) return;
    drawRange(watched.run);
    drawPlots(watched.run, watched.alerts).catch(() => shared.again());
  }

  function drawRange(found: Run): void {
    const {first: from, last: to} = steps();
    const all = stepsOf(found);
    first.set(stepParameter("first"), all === null ? "" : String(all.first));
    last.set(stepParameter("last"), all === null ? "" : String(all.last));
    if (timelineMemo.changed(found.attempts, watched.alerts, events, from, to)) {
      timeline.draw(found, watched.alerts, events, from, to);
    }
  }

  function steps(): {first: number; last: number} {
    const all = (watched.run === null ? null : stepsOf(watched.run)) ?? {first: 0, last: 1};
    const from = stepParameter("first") ?? all.first;
    const to = stepParameter("last") ?? Math.max(all.last, from + 1);
    return from < to ? {first: from, last: to} : {first: to, last: from + 1};
  }

  function scale(factor: number): void {
    const {first: from, last: to} = steps();
    const half = Math.max((to - from) * factor / 2, 2);
    const middle = (from + to) / 2;
    zoom({first: Math.max(Math.round(middle - half), 0), last: Math.round(middle + half)});
  }

  function pan(share: number): void {
    const {first: from, last: to} = steps();
    const by = Math.max(Math.round((to - from) * share), -from);
    zoom({first: from + by, last: to + by});
  }

  function show(specs: string[]): void {
    change({plot: specs}, true);
    shared.again();
  }

  /**
   * What the address says, or the scalars everybody looks at first and what the firing alerts are
   * about.
   */
  function shown(): string[] {
    const asked = parameters("plot");
    if (asked.length > 0) return asked;
    const chosen = ALWAYS.filter((id) => watched.series.has(id));
    for (const alert of shared.firing) {
      if (alert.run !== wanted || alert.severity === "info" || alert.indicator === "") continue;
      const layerOf = alert.layers.length === 1 ? alert.layers[0] : undefined;
      const spec = specText({indicator: alert.indicator, layer: layerOf});
      if (chosen.length < ALWAYS.length + 3 && !chosen.includes(spec)) chosen.push(spec);
    }
    return chosen.length > 0 ? chosen : [...watched.series.keys()].slice(0, 3);
  }

  function choices(): void {
    const all = [...watched.series.keys()].sort();
    if (!watched.series.has(choice.indicator)) choice = {indicator: all[0] ?? ""};
    indicator.set(all.map((id) => [id, id]), choice.indicator);
    const series = watched.series.get(choice.indicator) ?? [];
    layer.set(
        [
          ["", "all"],
          ...layersOf(series).map((one): [string, string] => [String(one), String(one)])
        ],
        choice.layer === undefined ? "" : String(choice.layer));
    const inLayer =
        series.filter((one) => choice.layer === undefined || one.layer === choice.layer);
    const units = new Map<string, string>();
    for (const one of inLayer) {
      if (one.unit_name !== "")
        units.set(`=${one.unit_name}`, one.unit_name);
      else if (one.unit !== "UNIT_NONE")
        units.set(one.unit_id, one.unit_id);
    }
    unit.set([["", "all"], ...units], choice.unit ?? "");
    unit.root.hidden = units.size < 2;
    layer.root.hidden = layersOf(series).length === 0;
  }

  function drawFacts(found: Run, rate: number|null, newest: string): void {
    if (!factsMemo.changed(found, rate, newest)) return;
    const fact = (title: string, ...content: (Node|string)[]) =>
        h("div", {}, h("dt", {}, title), h("dd", {}, ...content));
    const attempt = found.attempts[found.attempts.length - 1];
    const model = found.model;
    const shape = [
      model?.layers ? `${model.layers} layers` : "", model?.heads ? `${model.heads} heads` : "",
      model?.experts ? `${model.experts} experts, top ${model.top_k}` : ""
    ].filter((part) => part !== "");
    replace(
        facts,
        fact(
            "State", stateBadge(found.state),
            attempt !== undefined && found.state === "RUN_STATE_LIVE" ?
                ` ${attempt.ranks_connected} of ${attempt.world_size} ranks` :
                ""),
        fact("Last step", h("b", {}, whole(found.last_step)), newest === "" ? "" : ` · ${newest}`),
        fact("Speed", rate === null ? "–" : `${short(rate)} steps/s`),
        fact("Attempts", String(found.attempts.length)),
        fact("Model", shape.join(", ") || "not declared"), fact("Series", whole(found.series)),
        ...Object.entries(found.labels).sort().map(([key,
                                                     value]) => fact(key, h("bdi", {}, value))));
  }

  function drawFiring(all: Alert[]): void {
    const mine = all.filter((alert) => alert.state === "ALERT_STATE_FIRING");
    const grave = mine.filter((alert) => alert.severity !== "info");
    if (!firingMemo.changed(mine)) return;
    const rest = mine.length - grave.length;
    replace(
        firing, h("h2", {class: "visually-hidden"}, "What fires"),
        ...grave.slice(0, 4).map((alert) => alertCard(alert, false)),
        h("p", {class: "faint"}, grave.length === 0 && "Nothing here asks for action. ",
          grave.length > 4 && `${grave.length - 4} more fire. `,
          rest > 0 &&
              `${rest} single ${rest === 1 ? "indicator has" : "indicators have"} moved (info). `,
          link(
              url("alerts", {run: wanted, info: rest > 0 && grave.length === 0 ? 1 : null}), {},
              "All alerts of this run")));
  }

  /** Where lines of different attempts meet. */
  function attemptMarks(found: Run): Mark[] {
    return found.attempts.filter((one) => one.number > 1 && one.first_step !== undefined)
        .map((one) => ({kind: "step", at: Number(one.first_step), text: `attempt ${one.number}`}));
  }

  async function drawPlots(found: Run, alerts: Alert[], signal?: AbortSignal): Promise<void> {
    const specs = shown();
    for (const [text, plot] of plots) {
      if (specs.includes(text)) continue;
      plot.close();
      plots.delete(text);
      plot.root.remove();
    }
    specs.forEach((text) => {
      if (plots.has(text)) return;
      plots.set(text, new Plot({
                  run: found.name,
                  spec: parseSpec(text),
                  cursor,
                  zoom,
                  remove: () => show(shown().filter((one) => one !== text))
                }));
    });
    const order = specs.map((text) => (plots.get(text) as Plot).root);
    if (order.some((element, i) => grid.children[i] !== element)) grid.replaceChildren(...order);
    if (order.length === 0)
      grid.replaceChildren(notice("empty", "No values yet.", "Plots appear with the first steps."));
    const {first: from, last: to} = steps();
    if (!plotsMemo.changed(
            specs, from, to, found, alerts, matchMedia("(prefers-color-scheme: dark)").matches,
            grid.clientWidth))
      return;
    const marks = attemptMarks(found);
    const end = stepsOf(found)?.last ?? to;
    try {
      await Promise.all(specs.map((text) => {
        const spec = parseSpec(text);
        return (plots.get(text) as Plot)
            .load(
                found.series, {first: from, last: to}, spansOf(alerts, end, spec.indicator),
                [...marks, ...levels(alerts, spec, end)], signal);
      }));
    } catch (error) {
      plotsMemo.changed(null);
      throw error;
    }
  }

  async function speed(found: Run, signal: AbortSignal): Promise<[number | null, string]> {
    if (found.last_step === undefined) return [null, ""];
    const {steps: rows} = await get<{steps: Step[]}>(
        "steps", {run: found.name, first_step: Math.max(Number(found.last_step) - RATE_STEPS, 0)},
        signal);
    const [from, to] = [rows[0], rows[rows.length - 1]];
    if (from === undefined || to === undefined) return [null, ""];
    const seconds = (Number(to.time_unix_ns) - Number(from.time_unix_ns)) / 1e9;
    return [
      seconds > 0 ? (Number(to.step) - Number(from.step)) / seconds : null, time(to.time_unix_ns)
    ];
  }

  return {
    title: wanted ?? "Run",
    root,
    async refresh(signal) {
      let rate: number|null = null;
      let newest = "";
      const found = await watched.look(signal, async (one) => {
        const [declared, [perSecond, at]] = await Promise.all(
            [get<{events: RunEvent[]}>("events", {run: one.name}, signal), speed(one, signal)]);
        [events, rate, newest] = [declared.events, perSecond, at];
      });
      if (found === null) {
        ready = false;
        return;
      }
      if (!ready) {
        replace(
            root, runHead(found.name, "run"), facts, firing, range, timeline.root, grid,
            h("h2", {}, "Add a plot"), adder);
        ready = true;
      }
      drawFacts(found, rate, newest);
      drawFiring(watched.alerts);
      choices();
      drawRange(found);
      await drawPlots(found, watched.alerts, signal);
    },
    live: () => watched.run?.state === "RUN_STATE_LIVE",
    readdress: redraw,
    close: () => plots.forEach((plot) => plot.close()),
  };
}

/** What the alerts of an indicator were judged against, while they lasted. */
export function levels(alerts: Alert[], spec: Spec, end: number): Mark[] {
  const marks: Mark[] = [];
  for (const alert of alerts) {
    if (alert.indicator !== spec.indicator || alert.baseline === undefined) continue;
    if (marks.some((mark) => mark.at === alert.baseline)) continue;
    marks.push({
      kind: "level",
      at: alert.baseline,
      from: Number(alert.pending_step),
      to: Number(alert.resolved_step ?? end),
      text: "baseline"
    });
  }
  return marks.slice(0, 1);
}

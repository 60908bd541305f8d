// One alert: what it is in a sentence, what to do, what moved first, with plots of the evidence.
import {alertActions} from "./alert_actions";
import {Alert, Evidence, get, Run, Silence, Step} from "./api";
import {Cursor} from "./chart";
import {findRun, page, severityBadge} from "./controls";
import {h, link, Memo, name, notice, replace} from "./dom";

import {alertState, difference, headline, place, short, time, whole} from "./format";
import type {Shared, View} from "./live";
import {Plot, spansOf} from "./plot";
import {levels} from "./run";
import {Spec, specText, stepsOf} from "./series";
import {parameter, url} from "./url";

const PLOTS_MOST = 6;
const BEFORE_LEAST = 100;  // steps shown before the alert began

export function alertView(shared: Shared): View {
  const [wanted, id] = [parameter("run"), parameter("id")];
  const root = h("div", {}, notice("wait", "Loading the alert …"));
  const top = h("div", {});
  const actions = h("div", {});
  const evidence = h("div", {});
  const plotsBox = h("section", {class: "plots", "aria-label": "Plots of the evidence"});
  const cursor = new Cursor();
  const plots = new Map<string, Plot>();
  const [memo, plotsMemo] = [new Memo(), new Memo()];
  let alert: Alert|null = null;
  let ready = false;
  let actionsFor = "";

  async function find(signal: AbortSignal): Promise<Alert|null> {
    const {alerts} =
        await get<{alerts: Alert[]}>("alerts", {run: wanted ?? undefined, limit: 100_000}, signal);
    return alerts.find((one) => one.id === id) ?? null;
  }

  function evidenceRow(one: Evidence): HTMLElement {
    const moved = one.step !== undefined;
    const verdict = one.supports ? "for it" : "against it";
    return h(
        "tr", {class: moved ? "" : "faint"},
        h("td", {"data-title": "Since step"}, moved ? whole(one.step) : "–"),
        h("td", {"data-title": "What moved"}, h("bdi", {}, one.rule)),
        h("td", {"data-title": "Indicator"}, h("code", {}, one.indicator)),
        h("td", {"data-title": "Where"}, moved ? place({layers: one.layers}) : ""),
        h("td", {"data-title": "Speaks"}, verdict), h("td", {"data-title": "How"}, one.text));
  }

  function drawTop(found: Alert, began: string, silences: Silence[]): void {
    if (!memo.changed(found, began, silences)) return;
    const firing = found.state === "ALERT_STATE_FIRING";
    const fact = (title: string, ...content: (Node|string|false)[]) =>
        h("div", {}, h("dt", {}, title), h("dd", {}, ...content));
    const over = found.resolved_step === undefined ? "" : ` to ${whole(found.resolved_step)}`;
    const silenced = silences.filter((silence) => found.silenced_by.includes(silence.id));
    const at = Math.max(Number(found.pending_step) - BEFORE_LEAST, 0);
    const moved = found.evidence.filter((one) => one.step !== undefined);
    const rest = found.evidence.filter((one) => one.step === undefined);
    replace(
        top,
        h("div", {class: "alert-head"}, severityBadge(found.severity),
          h("span", {class: `badge ${firing ? "firing" : "quiet"}`}, alertState(found.state)),
          h("h1", {}, headline(found))),
        h("p", {class: "summary"}, found.summary),
        h("dl", {class: "facts"},
          fact(
              "Run", link(url("run", {run: found.run}), {}, name(found.run)),
              ` attempt ${found.attempt}`),
          fact("Where", place(found)),
          fact(
              "Since step", h("b", {}, whole(found.pending_step)), over,
              found.firing_step !== undefined && ` · fired at ${whole(found.firing_step)}`,
              began !== "" && h("div", {class: "faint"}, began)),
          found.indicator !== "" &&
              fact(
                  "Value", `${short(found.value)}`,
                  found.baseline !== undefined && ` against ${short(found.baseline)} before`,
                  difference(found) !== "" && h("b", {}, ` ${difference(found)}`)),
          fact("Probable fault", found.fault || "not named"),
          fact(
              "Last healthy step", h("b", {}, whole(found.last_healthy_step)),
              found.checkpoint !== "" &&
                  h("div", {}, "checkpoint ", h("bdi", {}, found.checkpoint)))),
        h("section", {class: "card todo"}, h("h2", {}, "What to do"),
          h("p", {}, found.description || "The rule says nothing about it."),
          found.runbook !== "" &&
              h("p", {}, "Runbook: ",
                /^https?:\/\//.test(found.runbook) ?
                    h("a", {href: found.runbook, rel: "noreferrer noopener"}, found.runbook) :
                    h("code", {}, found.runbook)),
          found.last_healthy_step !== undefined &&
              h("p", {},
                link(
                    url("run", {
                      run: found.run,
                      first: at,
                      last: Number(found.resolved_step ?? found.pending_step) + BEFORE_LEAST
                    }),
                    {}, "Look at the steps around its beginning"))),
        found.acknowledgement !== undefined &&
            h("p", {class: "card"}, "Taken on by ",
              h("b", {}, h("bdi", {}, found.acknowledgement.by)),
              `, ${time(found.acknowledgement.time_unix_ns)}`,
              found.acknowledgement.why !== "" && ": ", h("bdi", {}, found.acknowledgement.why)),
        ...silenced.map(
            (silence) =>
                h("p", {class: "card"}, "Silenced until ", time(silence.ends_unix_ns), " by ",
                  h("bdi", {}, silence.by), ": ", h("code", {}, silence.matchers.join(", ")))));
    replace(
        evidence,
        moved.length + rest.length > 0 &&
            h("section", {}, h("h2", {}, "Evidence, first movers first"),
              h("table", {class: "stack evidence"},
                h("thead", {},
                  h("tr", {},
                    ...["Since step", "What moved", "Indicator", "Where", "Speaks", "How"].map(
                        (title) => h("th", {scope: "col"}, title)))),
                h("tbody", {}, ...[...moved, ...rest].map(evidenceRow)))));
  }

  /** The alert's own indicator, then those of the evidence in the order in which they moved. */
  function specs(found: Alert): Spec[] {
    const wantedPlots: Spec[] = [];
    const add = (indicator: string, layers: number[]) => {
      if (indicator === "" || wantedPlots.some((spec) => spec.indicator === indicator)) return;
      wantedPlots.push({indicator, layer: layers.length > 0 ? layers[0] : undefined});
    };
    for (const one of found.evidence)
      if (one.step !== undefined) add(one.indicator, one.layers);
    add(found.indicator, found.layers);
    return wantedPlots.slice(0, PLOTS_MOST);
  }

  async function drawPlots(found: Alert, run: Run, signal: AbortSignal): Promise<void> {
    const last = stepsOf(run)?.last ?? Number(found.pending_step);
    const began = Number(found.pending_step);
    const until = Number(found.resolved_step ?? last);
    const around = Math.max(Math.round((until - began) * 0.3), BEFORE_LEAST);
    const range = {
      first: Math.max(began - around, 0),
      last: Math.max(Math.min(until + around, last), began + 1)
    };
    const wantedPlots = specs(found);
    if (!plotsMemo.changed(
            wantedPlots, range, last, matchMedia("(prefers-color-scheme: dark)").matches,
            plotsBox.clientWidth))
      return;
    const keys = wantedPlots.map(specText);
    for (const [key, plot] of plots)
      if (!keys.includes(key)) {
        plot.close();
        plots.delete(key);
      }
    for (const spec of wantedPlots) {
      if (!plots.has(specText(spec))) {
        plots.set(specText(spec), new Plot({run: found.run, spec, cursor, height: "small"}));
      }
    }
    replace(plotsBox, ...keys.map((key) => (plots.get(key) as Plot).root));
    try {
      await Promise.all(wantedPlots.map((spec) => {
        const moved = found.evidence.find(
            (one) => one.indicator === spec.indicator && one.step !== undefined);
        const at = Number(moved?.step ?? found.pending_step);
        return (plots.get(specText(spec)) as Plot)
            .load(
                run.series, range, spansOf([found], last, found.indicator),
                [{kind: "step", at, text: `moved ${whole(at)}`}, ...levels([found], spec, last)],
                signal);
      }));
    } catch (error) {
      plotsMemo.changed(null);
      throw error;
    }
  }

  function missing(): HTMLElement {
    return page(
        "No such alert",
        notice(
            "error", "There is no such alert.",
            "It may belong to a run that was deleted, or retention has dropped it. See ",
            link(url("alerts"), {}, "all alerts"), wanted !== null && " or ",
            wanted !== null && link(url("run", {run: wanted}), {}, "its run"), "."));
  }

  return {
    title: "Alert",
    root,
    async refresh(signal) {
      const run = wanted === null ? null : await findRun(wanted, signal);
      const found = run instanceof HTMLElement ? null : await find(signal);
      if (found === null) {
        ready = false;
        replace(root, run instanceof HTMLElement ? run : missing());
        return;
      }
      alert = found;
      this.title = `${headline(found)} in ${found.run}`;
      if (!ready) {
        replace(root, top, actions, evidence, plotsBox);
        ready = true;
      }
      const [{steps}, {silences}] = await Promise.all([
        get<{steps: Step[]}>(
            "steps",
            {run: found.run, first_step: found.pending_step, last_step: found.pending_step},
            signal),
        get<{silences: Silence[]}>("silences", {}, signal), shared.fresh
      ]);
      drawTop(found, time(steps[0]?.time_unix_ns), silences);
      if (actionsFor !== found.state) {
        actionsFor = found.state;
        replace(
            actions,
            found.state === "ALERT_STATE_FIRING" && alertActions(found, () => shared.again()));
      }
      const of = run ?? await findRun(found.run, signal);
      if (!(of instanceof HTMLElement)) await drawPlots(found, of as Run, signal);
    },
    live: () => alert?.state === "ALERT_STATE_FIRING",
    close: () => plots.forEach((plot) => plot.close()),
  };
}

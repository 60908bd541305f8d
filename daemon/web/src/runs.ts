// All runs: which live, how far they are, what fires, how the loss goes.
import {Alert, get, Result, Run, Step} from "./api";
import {severityBadge, stateBadge} from "./controls";
import {button, h, link, Memo, name, notice, replace} from "./dom";

import {short, time, whole} from "./format";
import type {Shared, View} from "./live";
import {faded, themed} from "./palette";
import {Curve, curveOf} from "./series";
import {change, parameter, url} from "./url";

const SHOWN_FIRST = 50;
const RATE_STEPS = 20;

/** What a row needs beyond the run itself; asked again when the run has moved. */
interface Extra {
  at: string;
  loss: Curve|null;
  stepsPerSecond: number|null;
  newestNs: string
}

export function runsView(shared: Shared): View {
  const extras = new Map<string, Extra>();
  const filter = h("input", {
    type: "search",
    placeholder: "Filter by name",
    "aria-label": "Filter by name",
    value: parameter("name") ?? "",
    input: () => {
      change({name: filter.value});
      draw();
    }
  });
  const body = h("div", {});
  const root = h("div", {}, h("div", {class: "title-row"}, h("h1", {}, "Runs"), filter), body);
  const memo = new Memo();
  let runs: Run[]|null = null;
  let shownMost = SHOWN_FIRST;

  function visible(): Run[] {
    const wanted = filter.value.toLowerCase();
    return (runs ?? []).filter((run) => run.name.toLowerCase().includes(wanted));
  }

  function draw(): void {
    if (runs === null) return;
    const found = visible();
    const rows = found.slice(0, shownMost);
    if (!memo.changed(found, shownMost, shared.firing, rows.map((run) => extras.get(run.name)?.at)))
      return;
    if (runs.length === 0) {
      replace(
          body,
          notice(
              "empty", "No run has reported yet.", "Start one with the Python client (",
              h("code", {}, "foreshock.watch(model, optimizer, run=\"…\")"),
              ") or replay a recorded one: ", h("code", {}, "foreshock replay FILE"),
              ". It appears here by itself."));
      return;
    }
    if (found.length === 0) {
      replace(body, notice("empty", "No run has this in its name.", button("Show all runs", {
                             click: () => {
                               filter.value = "";
                               change({name: null});
                               draw();
                             }
                           })));
      return;
    }
    const table =
        h("table", {class: "stack"},
          h("thead", {},
            h("tr", {},
              ...["Run", "State", "Last step", "Steps/s", "Firing", "Loss", "Attempts"].map(
                  (title) => h("th", {scope: "col"}, title)))),
          h("tbody", {}, ...rows.map(row)));
    replace(body, table, found.length > rows.length && button(`Show all ${found.length} runs`, {
                           click: () => {
                             shownMost = Infinity;
                             shared.again();
                           }
                         }));
  }

  function row(run: Run): HTMLElement {
    const extra = extras.get(run.name);
    const attempt = run.attempts[run.attempts.length - 1];
    const cell = (title: string, ...content: (Node|string)[]) =>
        h("td", {"data-title": title}, ...content);
    const live = run.state === "RUN_STATE_LIVE";
    const newest = time(extra?.newestNs);
    return h(
        "tr", {}, cell("Run", link(url("run", {run: run.name}), {}, name(run.name))),
        cell("State", stateBadge(run.state)),
        cell(
            "Last step", h("b", {}, whole(run.last_step)),
            newest === "" ? "" : h("div", {class: "faint"}, newest)),
        cell("Steps/s", live && extra?.stepsPerSecond ? short(extra.stepsPerSecond) : "–"),
        cell("Firing", ...firing(run)), cell("Loss", extra?.loss ? sparkline(extra.loss) : "–"),
        cell(
            "Attempts", attempt === undefined ? "–" : String(run.attempts.length),
            attempt === undefined || !live ?
                "" :
                h("span", {class: "faint"},
                  ` ${attempt.ranks_connected} of ${attempt.world_size} ranks`)));
  }

  function firing(run: Run): (Node|string)[] {
    const mine = shared.firing.filter((alert: Alert) => alert.run === run.name);
    const badges: Node[] = [];
    for (const severity of ["critical", "warning"]) {
      const some = mine.filter((alert) => alert.severity === severity);
      if (some.length === 0) continue;
      badges.push(link(
          url("alerts", {run: run.name}), {"data-key": `${run.name} ${severity}`, class: "plain"},
          severityBadge(severity), ` ${some.length}`));
    }
    return badges.length > 0 ? badges : ["none"];
  }

  async function loadExtra(run: Run, signal: AbortSignal): Promise<void> {
    const at = `${run.last_step ?? ""} ${run.state}`;
    if (run.last_step === undefined || extras.get(run.name)?.at === at) return;
    const last = Number(run.last_step);
    const [loss, steps] = await Promise.all([
      get<{results: Result[]}>(
          "points", {run: run.name, indicator: "train.loss", unit: "none", buckets_max: 100},
          signal),
      get<{steps: Step[]}>(
          "steps", {run: run.name, first_step: Math.max(last - RATE_STEPS, 0)}, signal)
    ]);
    const [from, to] = [steps.steps[0], steps.steps[steps.steps.length - 1]];
    const seconds = (Number(to?.time_unix_ns ?? 0) - Number(from?.time_unix_ns ?? 0)) / 1e9;
    extras.set(run.name, {
      at,
      loss: loss.results[0] === undefined ? null : curveOf(loss.results[0]),
      stepsPerSecond: seconds > 0 ? (Number(to?.step) - Number(from?.step)) / seconds : null,
      newestNs: to?.time_unix_ns ?? "0"
    });
  }

  return {
    title: "Runs",
    root,
    async refresh(signal) {
      const [answer] = await Promise.all([get<{runs: Run[]}>("runs", {}, signal), shared.fresh]);
      runs = answer.runs;
      draw();
      await Promise.all(visible().slice(0, shownMost).map((run) => loadExtra(run, signal)));
      draw();
    },
    live: () => (runs ?? []).some((run) => run.state === "RUN_STATE_LIVE"),
    readdress() {
      filter.value = parameter("name") ?? "";
      draw();
    },
  };
}

/** The loss as a line without axes: mean and range of each bucket. */
function sparkline(curve: Curve): HTMLCanvasElement {
  const [width, height] = [140, 34];
  const ratio = devicePixelRatio;
  const text = `Loss: ${short(curve.mean[0])} at step ${curve.first[0]}, newest ` +
      `${short(curve.mean[curve.mean.length - 1])}`;
  const canvas = h("canvas", {
    width: width * ratio,
    height: height * ratio,
    class: "spark",
    role: "img",
    "aria-label": text,
    title: text
  });
  const draw = canvas.getContext("2d");
  if (draw === null || curve.first.length === 0) return canvas;
  draw.scale(ratio, ratio);
  const sorted = [...curve.max].sort((a, b) => a - b);
  // One spike must not flatten the rest.
  const top = Math.max(sorted[Math.floor(0.98 * (sorted.length - 1))] as number, ...curve.mean);
  const bottom = Math.min(...curve.min);
  const [from, to] = [curve.first[0] as number, curve.last[curve.last.length - 1] as number];
  const x = (step: number) => 1 + (width - 2) * (to > from ? (step - from) / (to - from) : 0);
  const y = (value: number) =>
      height - 2 - (height - 4) * (top > bottom ? (value - bottom) / (top - bottom) : 0.5);
  const color = themed("accent");
  draw.fillStyle = faded(color, 0.25);
  draw.beginPath();
  curve.first.forEach((step, i) => draw.lineTo(x(step), y(Math.min(curve.max[i] as number, top))));
  for (let i = curve.first.length - 1; i >= 0; --i)
    draw.lineTo(x(curve.first[i] as number), y(curve.min[i] as number));
  draw.fill();
  draw.strokeStyle = color;
  draw.lineWidth = 1.5;
  draw.beginPath();
  curve.first.forEach((step, i) => draw.lineTo(x(step), y(curve.mean[i] as number)));
  draw.stroke();
  return canvas;
}

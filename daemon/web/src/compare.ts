// Two runs over each other: any indicator, by step or by tokens.
import {ApiError, get, Result, Run, Series} from "./api";
import {Cursor, Line, LineChart} from "./chart";
import {findRun, layersOf, runHead, select} from "./controls";
import {button, h, link, Memo, name, notice, replace} from "./dom";
import {csv, png} from "./export";

import {compact, short, whole} from "./format";
import type {Shared, View} from "./live";
import {lineColor, themed} from "./palette";
import {indexAt, lineOf} from "./plot";
import {Curve, Spec, chooseSeries, curveOf, listIndicators, loadCurves, specTitle, stepsOf} from "./series";
import {change, parameter, stepParameter, url} from "./url";

const BUCKETS = 800;

/** Tokens seen up to the end of each bucket, of a series of tokens per step. */
export function tokensSeen(perStep: Curve): number[] {
  let seen = 0;
  let before = (perStep.first[0] ?? 0) - 1;
  return perStep.last.map((last, i) => {
    seen += (perStep.mean[i] as number) * (last - before);
    before = last;
    return seen;
  });
}

interface Side {
  run: Run;
  curves: Curve[];
  tokens: {curve: Curve; seen: number[]}|null;
}

/** Between the steps whose tokens are known, in proportion. */
function tokensAt(tokens: Side["tokens"], step: number): number {
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

export function compareView(shared: Shared): View {
  const root = h("div", {}, notice("wait", "Loading …"));
  const head = h("div", {});
  const body = h("div", {});
  const again = (values: {[name: string]: string|null}) => {
    change(values, true);
    shared.again();
  };
  const a = select("Run A (solid)", (value) => again({a: value}));
  const b = select("Run B (dashed)", (value) => again({b: value}));
  const indicator = select("Indicator", (value) => again({indicator: value, layer: null}));
  const layer = select("Layer", (value) => again({layer: value}));
  const by = select("Over", (value) => again({by: value}));
  const tools = h("div", {class: "toolbar"}, a.root, b.root, indicator.root, layer.root, by.root);
  const cursor = new Cursor();
  const box = h("div", {class: "chart tall"});
  const legend = h("ul", {class: "legend"});
  const readout = h("output", {class: "readout"});
  const title = h("span", {class: "plot-title"});
  const figure =
      h("figure", {class: "plot"},
        h("figcaption", {}, title,
          h("span", {class: "tools"},
            button("PNG", {class: "tool", title: "Save the picture", click: () => savePicture()}),
            button("CSV", {class: "tool", title: "Save the numbers", click: () => saveNumbers()}))),
        box, readout, legend);
  const memo = new Memo();
  let sides: Side[] = [];
  let tokens = false;
  let spec: Spec = {indicator: ""};
  const chart = new LineChart(box, {
    name: "Comparison",
    cursor,
    xText: (x) => tokens ? compact(x) :
        x < 1e6          ? whole(x) :
                           compact(x),
    zoom: (range) => again({
      first: range === null ? null : String(range.first),
      last: range === null ? null : String(range.last)
    })
  });
  const stop = cursor.listen(() => read());
  let ready = false;

  const at = (side: Side, step: number) => tokens ? tokensAt(side.tokens, step) : step;

  async function load(run: Run, signal: AbortSignal): Promise<Side> {
    const buckets = Math.min(Math.max(root.clientWidth, 300), BUCKETS);
    const [curves, totals] = await Promise.all([
      chooseSeries(run.name, spec, signal)
          .then((choice) => loadCurves(choice, {}, buckets, signal)),
      tokens ? get<{results: Result[]}>(
                   "points", {run: run.name, indicator: "train.tokens_total", buckets_max: BUCKETS},
                   signal) :
               null
    ]);
    const first = totals?.results[0];
    const curve = first === undefined ? null : curveOf(first);
    return {
      run,
      curves: curves.curves,
      tokens: curve &&
          {
            curve, seen: tokensSeen(curve)
          }
    };
  }

  function draw(): void {
    const lines: Line[] = [];
    let [first, last] = [Infinity, -Infinity];
    sides.forEach((side, n) => side.curves.forEach((curve, i) => {
      const line = lineOf(curve);
      line.x = line.x.map((step) => at(side, step));
      for (const x of line.x) {
        if (!Number.isFinite(x)) continue;
        first = Math.min(first, x);
        last = Math.max(last, x);
      }
      const color = side.curves.length === 1 ? lineColor(n) : lineColor(i);
      lines.push({...line, color, dash: n === 0 ? [] : [6, 4]});
    }));
    [first, last] = first > last ? [0, 1] : [Math.floor(first), Math.ceil(last)];
    chart.draw({
      lines,
      spans: [],
      marks: [],
      logarithmic: false,
      first: stepParameter("first") ?? first,
      last: stepParameter("last") ?? Math.max(last, first + 1)
    });
    title.textContent = `${specTitle(spec)} over ${tokens ? "tokens" : "steps"}`;
    chart.canvas.setAttribute(
        "aria-label",
        `${title.textContent} of ${sides.map((side) => side.run.name).join(" and ")}`);
    const lost = sides.filter((side) => tokens && side.tokens === null);
    const none = sides.filter((side) => side.curves.length === 0);
    replace(
        body, figure,
        ...none.map((side) => notice("empty", "This run has no such values:", name(side.run.name))),
        ...lost.map(
            (side) => notice(
                "empty", "This run reports no tokens, so it cannot be drawn over them:",
                name(side.run.name))));
    read();
  }

  function read(): void {
    const entries: HTMLElement[] = [];
    const x = cursor.x;
    sides.forEach((side, n) => side.curves.forEach((curve, i) => {
      const xs = curve.first.map((step) => at(side, step));
      let index = xs.length - 1;
      if (x !== null) index = xs.filter((one) => one <= x).length - 1;
      const swatch = h("i", {class: "swatch"});
      swatch.style.borderTopColor = side.curves.length === 1 ? lineColor(n) : lineColor(i);
      swatch.style.borderTopStyle = n === 0 ? "solid" : "dashed";
      entries.push(
          h("li", {}, swatch, name(side.run.name, "name short"), ` ${curve.label} `,
            h("b", {}, short(curve.mean[index])),
            h("span", {class: "faint"}, index < 0 ? "" : ` step ${whole(curve.last[index])}`)));
    }));
    readout.textContent =
        x === null ? "newest values" : `${tokens ? "tokens" : "step"} ${whole(x)}`;
    replace(legend, ...entries);
  }

  const file = () => `compare-${sides.map((side) => side.run.name).join("-")}-${spec.indicator}`;
  function savePicture(): void {
    png(file(), chart.canvas,
        `${title.textContent}: ${sides.map((side) => side.run.name).join(" (solid), ")} (dashed)`,
        themed("card"), themed("text"));
  }
  function saveNumbers(): void {
    const rows: (string|number)[][] = [
      ["run", "indicator", "series", "last_step", tokens ? "tokens" : "step", "mean", "min", "max"]
    ];
    for (const side of sides) {
      for (const curve of side.curves) {
        curve.last.forEach((step, i) => rows.push([
          side.run.name, spec.indicator, curve.label, step, at(side, step), curve.mean[i] as number,
          curve.min[i] as number, curve.max[i] as number
        ]));
      }
    }
    csv(file(), rows);
  }

  return {
    title: "Compare",
    root,
    async refresh(signal) {
      const {runs} = await get<{runs: Run[]}>("runs", {}, signal);
      if (runs.length < 2) {
        replace(
            root, h("h1", {}, "Compare"),
            notice(
                "empty", "Comparing takes two runs.",
                `There ${runs.length === 1 ? "is one" : "is none"} so far. `,
                link(url("runs"), {}, "Runs")));
        ready = false;
        return;
      }
      const nameA = parameter("a") ?? runs[0]!.name;
      const nameB = parameter("b") ?? runs.find((run) => run.name !== nameA)!.name;
      const found = await Promise.all([findRun(nameA, signal), findRun(nameB, signal)]);
      const bad = found.find((one): one is HTMLElement => one instanceof HTMLElement);
      if (bad !== undefined) {
        ready = false;
        replace(root, h("h1", {}, "Compare"), bad);
        return;
      }
      const pair = found as Run[];
      const listed: Map<string, Series[]>[] =
          await Promise.all(pair.map((run) => listIndicators(run.name, signal)));
      const ids = [...new Set(listed.flatMap((one) => [...one.keys()]))].sort();
      const asked = parameter("indicator");
      const id = asked !== null && ids.includes(asked) ? asked :
          ids.includes("train.loss")                   ? "train.loss" :
                                                         ids[0] ?? "";
      const [ofA, ofB] = listed.map((one) => layersOf(one.get(id) ?? [])) as [number[], number[]];
      const both = ofA.filter((one) => ofB.includes(one));
      const all = both.length > 0 ? both : [...new Set([...ofA, ...ofB])].sort((x, y) => x - y);
      const wantedLayer = stepParameter("layer");
      spec = {
        indicator: id,
        layer: wantedLayer !== null && all.includes(wantedLayer) ? wantedLayer : all[0]
      };
      tokens = parameter("by") === "tokens";
      const options = runs.map((run): [string, string] => [run.name, run.name]);
      a.set(options, nameA);
      b.set(options, nameB);
      indicator.set(ids.map((one) => [one, one]), id);
      layer.set(
          all.map((one): [string, string] => [String(one), String(one)]), String(spec.layer ?? ""));
      layer.root.hidden = all.length < 2;
      by.set([["", "steps"], ["tokens", "tokens"]], tokens ? "tokens" : "");
      if (!ready) {
        replace(root, head, tools, body);
        replace(head, parameter("a") === null ? h("h1", {}, "Compare") : runHead(nameA, "compare"));
        ready = true;
      }
      if (!memo.changed(
              pair.map((run) => [run.name, stepsOf(run)]), spec, tokens, parameter("first"),
              parameter("last"), matchMedia("(prefers-color-scheme: dark)").matches))
        return;
      try {
        sides = await Promise.all(pair.map((run) => load(run, signal)));
      } catch (error) {
        memo.changed(null);
        if (error instanceof ApiError)
          replace(body, notice("error", "These cannot be compared.", error.message));
        throw error;
      }
      draw();
    },
    live: () => sides.some((side) => side.run.state === "RUN_STATE_LIVE"),
    readdress: () => shared.again(),
    close() {
      stop();
      chart.close();
    },
  };
}

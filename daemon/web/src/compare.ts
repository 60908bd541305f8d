// Two runs over each other, or a run over the band that a rule takes for healthy: any indicator, by
// step or by tokens.
import {ApiError, Band, get, Result, Run, Series} from "./api";
import {Cursor, Line, LineChart} from "./chart";
import {findRun, layersOf, runHead, select} from "./controls";
import {button, h, link, Memo, name, notice, replace} from "./dom";
import {csv, png, svgFile} from "./export";

import {compact, short, whole} from "./format";
import type {Shared, View} from "./live";
import {lineColor, themed} from "./palette";
import {indexAt, lineOf} from "./plot";
import {bandAt, bandLine, bandOf, listBands, loadBands, loadJudged, whatIsShaded} from "./reference";
import {Curve, Spec, chooseSeries, curveOf, listIndicators, loadCurves, specTitle, stepsOf} from "./series";
import {change, parameter, stepParameter, url} from "./url";

const BUCKETS = 800;
// A run may be named like anything, so that what stands for it says that it is one.
const [RUN, BAND] = ["run ", "band "];

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
  const b = select(
      "B (dashed)",
      (value) => again(
          value.startsWith(BAND) ? {band: value.slice(BAND.length), b: null} :
                                   {b: value.slice(RUN.length), band: null}));
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
            button("SVG", {
              class: "tool",
              title: "Save the picture as a drawing",
              click: () => svgFile(file(), chart.svg(caption()))
            }),
            button("CSV", {class: "tool", title: "Save the numbers", click: () => saveNumbers()}))),
        box, readout, legend);
  const memo = new Memo();
  let sides: Side[] = [];
  let rule: string|null = null;  // whose band takes the place of run B
  let bands: Band[] = [];        // of the rule, in the layer shown
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
      rule !== null ? loadJudged(run.name, bands, buckets, signal) :
                      chooseSeries(run.name, spec, signal)
                          .then((choice) => loadCurves(choice, {}, buckets, signal))
                          .then((loaded) => loaded.curves),
      tokens ? get<{results: Result[]}>(
                   "points", {run: run.name, indicator: "train.tokens_total", buckets_max: BUCKETS},
                   signal) :
               null
    ]);
    const first = totals?.results[0];
    const curve = first === undefined ? null : curveOf(first);
    return {
      run,
      curves,
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
    (sides[0]?.curves ?? []).forEach((curve, i) => {
      const band = bandOf(bands, curve);
      if (band !== undefined)
        lines.push(bandLine(band, first, last, lineColor(sides[0]!.curves.length === 1 ? 1 : i)));
    });
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
        `${title.textContent} of ${sides.map((side) => side.run.name).join(" and ")}` +
            (rule === null ? "" : ` and the band of rule ${rule}`));
    const lost = sides.filter((side) => tokens && side.tokens === null);
    const none = sides.filter((side) => side.curves.length === 0);
    replace(
        body, figure,
        bands.length > 0 &&
            h("p", {class: "faint"}, "The dashed line is the band that rule ",
              h("code", {}, rule ?? ""), ` compares with, ${whatIsShaded(bands[0] as Band)}.`),
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
      const band = bandOf(bands, curve);
      if (band === undefined || index < 0) return;
      const healthy = bandAt(band, x ?? xs[index] as number);
      const dashed = h("i", {class: "swatch"});
      dashed.style.borderTopColor = lineColor(side.curves.length === 1 ? 1 : i);
      dashed.style.borderTopStyle = "dashed";
      entries.push(
          h("li", {}, dashed, "band ", h("b", {}, short(healthy.median)),
            ` (${short(healthy.low)} to ${short(healthy.high)})`));
    }));
    readout.textContent =
        x === null ? "newest values" : `${tokens ? "tokens" : "step"} ${whole(x)}`;
    replace(legend, ...entries);
  }

  const names =
      () => [...sides.map((side) => side.run.name), ...rule === null ? [] : [`band of ${rule}`]];
  const file = () => `compare-${names().join("-")}-${spec.indicator}`;
  const caption = () => `${title.textContent}: ${names().join(" (solid), ")} (dashed)`;
  function savePicture(): void {
    png(file(), chart.canvas, caption(), themed("card"), themed("text"));
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
    for (const band of bands) {
      for (const {position, median, low, high} of band.points) {
        rows.push([
          `band of ${band.rule}`, band.indicator, band.unit_name || band.unit_id,
          tokens ? "" : position, position, median, low ?? "", high ?? ""
        ]);
      }
    }
    csv(file(), rows);
  }

  return {
    title: "Compare",
    root,
    async refresh(signal) {
      const [{runs}, known] =
          await Promise.all([get<{runs: Run[]}>("runs", {}, signal), listBands(signal)]);
      if (runs.length === 0 || (runs.length < 2 && known.length === 0)) {
        replace(
            root, h("h1", {}, "Compare"),
            notice(
                "empty", "Comparing takes two runs, or a rule with a reference band.",
                `There ${runs.length === 1 ? "is one run" : "is none"} so far. `,
                link(url("runs"), {}, "Runs")));
        ready = false;
        return;
      }
      const ruled = [...new Set(known.map((band) => band.rule))];
      const asked = parameter("band");
      const nameA = parameter("a") ?? runs[0]!.name;
      const other = parameter("b") ?? runs.find((run) => run.name !== nameA)?.name;
      const unasked = other === undefined ? ruled[0] ?? null : null;
      rule = asked !== null && ruled.includes(asked) ? asked : unasked;
      const wanted = rule === null ? [nameA, other as string] : [nameA];
      const found = await Promise.all(wanted.map((name) => findRun(name, signal)));
      const bad = found.find((one): one is HTMLElement => one instanceof HTMLElement);
      if (bad !== undefined) {
        ready = false;
        replace(root, h("h1", {}, "Compare"), bad);
        return;
      }
      const pair = found as Run[];
      const listed: Map<string, Series[]>[] =
          await Promise.all(pair.map((run) => listIndicators(run.name, signal)));
      const banded = known.filter((band) => band.rule === rule);
      const ids = rule === null ? [...new Set(listed.flatMap((one) => [...one.keys()]))].sort() :
                                  [...new Set(banded.map((band) => band.indicator))];
      const askedId = parameter("indicator");
      const id = askedId !== null && ids.includes(askedId) ? askedId :
          ids.includes("train.loss")                       ? "train.loss" :
                                                             ids[0] ?? "";
      const ofA = layersOf(listed[0]?.get(id) ?? []);
      const ofB = rule === null ?
          layersOf(listed[1]?.get(id) ?? []) :
          [...new Set(banded.flatMap((band) => band.layer === undefined ? [] : [band.layer]))];
      const both = ofA.filter((one) => ofB.includes(one));
      const all = both.length > 0 ? both : [...new Set([...ofA, ...ofB])].sort((x, y) => x - y);
      const wantedLayer = stepParameter("layer");
      spec = {
        indicator: id,
        layer: wantedLayer !== null && all.includes(wantedLayer) ? wantedLayer : all[0]
      };
      tokens = rule === null ? parameter("by") === "tokens" : banded.some((band) => band.by_tokens);
      a.set(runs.map((run): [string, string] => [run.name, run.name]), nameA);
      b.set(
          [
            ...runs.map((run): [string, string] => [RUN + run.name, run.name]),
            ...ruled.map((name): [string, string] => [BAND + name, `reference band of ${name}`])
          ],
          rule === null ? RUN + other : BAND + rule);
      indicator.set(ids.map((one) => [one, one]), id);
      layer.set(
          all.map((one): [string, string] => [String(one), String(one)]), String(spec.layer ?? ""));
      layer.root.hidden = all.length < 2;
      by.set([["", "steps"], ["tokens", "tokens"]], tokens ? "tokens" : "");
      by.root.hidden = rule !== null;  // as the band is
      if (!ready) {
        replace(root, head, tools, body);
        replace(head, parameter("a") === null ? h("h1", {}, "Compare") : runHead(nameA, "compare"));
        ready = true;
      }
      if (!memo.changed(
              pair.map((run) => [run.name, stepsOf(run)]), rule, spec, tokens, parameter("first"),
              parameter("last"), matchMedia("(prefers-color-scheme: dark)").matches))
        return;
      try {
        bands = rule === null ? [] : await loadBands(rule, id, spec.layer, signal);
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

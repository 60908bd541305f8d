// Layer by unit (head, expert) as a heat map at a step, or one layer's units over steps; a cell
// opens the plots of what lies behind it. Attention and router pages are this view with other
// words.
import {Alert, get, Result, Run, Series} from "./api";
import {Cursor} from "./chart";
import {layersOf, runHead, select, stepInput} from "./controls";
import {button, h, link, Memo, notice, replace} from "./dom";

import {short, whole} from "./format";
import {Heat, HeatMap} from "./heatmap";
import type {Shared, View} from "./live";
import type {Scale} from "./palette";
import {Plot, spansOf} from "./plot";
import {Spec, catalogue, curveOf, specText, stepsOf} from "./series";
import {change, parameter, stepParameter, url} from "./url";
import {WatchedRun} from "./watched_run";

export interface HeatPage {
  view: "attention"|"router";
  title: string;
  unit: "head"|"expert";
  prefix: string;       // of the indicators to choose from
  preferred: string[];  // the first that the run has is shown first
  scale(indicator: string): {scale: Scale; middle?: number};
  /** Below a cell that was opened. */
  details(layer: number, unit: number): Spec[];
  /** Below the map, always. */
  overview: Spec[];
  /** A sentence about a step's values. */
  says?(layers: number[], values: number[][]): string;
  empty: string;  // what to do when the run has none of it
}

// A value belongs to a step if it is at most so much older; summaries are sampled.
const AGE_MOST = 512;
const COLUMNS_MOST = 160;
const CELLS_MOST = 100_000;

export function heatView(page: HeatPage, shared: Shared): View {
  const wanted = parameter("run");
  const root = h("div", {}, notice("wait", "Loading the run …"));
  const map = new HeatMap(
      () => `${wanted ?? ""}: ${indicator}, ${over() ? `layer ${layer()}` : `step ${step()}`}`,
      open);
  const says = h("p", {});
  const help = h("p", {class: "faint"});
  const detailsTitle = h("h2", {});
  const detailsBox = h("section", {class: "plots", "aria-label": `Plots of the ${page.unit}`});
  const overviewBox = h("section", {class: "plots", "aria-label": "Plots of all layers"});
  const cursor = new Cursor();
  const plots = new Map<string, Plot>();
  const [memo, plotsMemo] = [new Memo(), new Memo()];
  const watched = new WatchedRun(wanted, root, shared);
  let indicator = "";
  let ready = false;

  const indicators = select("Indicator", (value) => {
    change({indicator: value}, true);
    shared.again();
  });
  const mode = select("Show", (value) => {
    change({over: value}, true);
    shared.again();
  });
  const layers = select("Layer", (value) => {
    change({layer: value, unit: null}, true);
    shared.again();
  });
  const exactStep = stepInput("At step", (value) => {
    change({step: value}, true);
    shared.again();
  });
  const slider = h("input", {
    type: "range",
    "aria-label": "Step",
    input: () => {
      change({step: Number(slider.value)});
      clearTimeout(waiting);
      waiting = window.setTimeout(() => shared.again(), 120);
    }
  });
  let waiting = 0;
  const newest = button("Newest", {
    click: () => {
      change({step: null});
      shared.again();
    }
  });
  const tools = h(
      "div", {class: "toolbar"}, indicators.root, mode.root, layers.root, exactStep.root,
      h("label", {class: "field grow"}, h("span", {}, "Step"), slider), newest,
      button("PNG", {class: "tool", title: "Save the picture", click: () => map.savePicture()}),
      button(
          "SVG",
          {class: "tool", title: "Save the picture as a drawing", click: () => map.saveDrawing()}),
      button("CSV", {class: "tool", title: "Save the numbers", click: () => map.saveNumbers()}));

  const over = () => parameter("over") === "steps";
  const chosen = (): Series[] =>
      (watched.series.get(indicator) ??
       []).filter((one) => one.unit === `UNIT_${page.unit.toUpperCase()}`);
  function layer(): number {
    const asked = stepParameter("layer");
    const all = layersOf(chosen());
    return asked !== null && all.includes(asked) ? asked : all[0] ?? 0;
  }
  function ends(): {first: number; last: number} {
    return (watched.run === null ? null : stepsOf(watched.run)) ?? {first: 0, last: 1};
  }
  function step(): number {
    const {first, last} = ends();
    return Math.min(Math.max(stepParameter("step") ?? last, first), last);
  }
  function unitIds(list: Series[]): number[] {
    return [...new Set(list.map((one) => Number(one.unit_id)))].sort((a, b) => a - b);
  }

  function open(row: number, column: number): void {
    const units = unitIds(chosen());
    const [atLayer, unit] =
        over() ? [layer(), units[row]] : [layersOf(chosen())[row], units[column]];
    if (atLayer === undefined || unit === undefined) return;
    change({layer: atLayer, unit}, true);
    shared.again();
    setTimeout(() => detailsTitle.scrollIntoView({block: "nearest", behavior: "smooth"}), 150);
  }

  async function atStep(found: Run, signal: AbortSignal): Promise<Heat> {
    const list = chosen();
    const [rows, columns] = [layersOf(list), unitIds(list)];
    const at = step();
    const {results} = await get<{results: Result[]}>(
        "points", {
          run: found.name,
          indicator,
          unit: page.unit,
          first_step: Math.max(at - AGE_MOST, 0),
          last_step: at,
          buckets_max: 1,
          limit: CELLS_MOST
        },
        signal);
    const values = rows.map(() => columns.map(() => NaN));
    const ages = rows.map(() => columns.map(() => NaN));
    for (const result of results) {
      const row = rows.indexOf(result.series.layer ?? -1);
      const column = columns.indexOf(Number(result.series.unit_id));
      const newest = result.buckets[result.buckets.length - 1] ?? null;
      const point = result.points[result.points.length - 1] ?? null;
      if (row < 0 || column < 0 || (newest === null && point === null)) continue;
      (values[row] as number[])[column] = newest?.last ?? point?.value ?? NaN;
      (ages[row] as number[])[column] = Number(newest?.last_step ?? point?.step);
    }
    says.textContent = page.says?.(rows, values) ?? "";
    return {
      rows: rows.map(String),
      columns: columns.map(String),
      values,
      rowTitle: "layer",
      columnTitle: page.unit,
      ...page.scale(indicator),
      more: (row, column) => {
        const age = ages[row]?.[column] ?? NaN;
        return Number.isFinite(age) ? `from step ${whole(age)}` : "";
      }
    };
  }

  async function overSteps(found: Run, signal: AbortSignal): Promise<Heat> {
    const at = layer();
    const units = unitIds(chosen().filter((one) => one.layer === at));
    const {results} = await get<{results: Result[]}>(
        "points", {
          run: found.name,
          indicator,
          unit: page.unit,
          layer: at,
          buckets_max: COLUMNS_MOST,
          limit: CELLS_MOST
        },
        signal);
    const curves = results.map(curveOf);
    // Summaries that are sampled leave buckets empty: columns are those that have values.
    const columns = [...new Set(curves.flatMap((curve) => curve.first))].sort((a, b) => a - b);
    const where = new Map(columns.map((start, i) => [start, i]));
    const values = units.map(() => columns.map(() => NaN));
    for (const curve of curves) {
      const row = values[units.indexOf(Number(curve.series.unit_id))];
      curve.first.forEach((start, i) => {
        const column = where.get(start);
        if (row !== undefined && column !== undefined) row[column] = curve.mean[i] as number;
      });
    }
    says.textContent = "";
    return {
      rows: units.map(String),
      columns: columns.map(whole),
      values,
      rowTitle: page.unit,
      columnTitle: "step",
      ...page.scale(indicator)
    };
  }

  async function drawPlots(found: Run, alerts: Alert[], signal: AbortSignal): Promise<void> {
    const unit = stepParameter("unit");
    const has = (spec: Spec) => watched.series.has(spec.indicator);
    const details = unit === null ? [] : page.details(layer(), unit).filter(has);
    const overview = page.overview.filter(has);
    const keys = [...details, ...overview].map(specText);
    for (const [key, plot] of plots)
      if (!keys.includes(key)) {
        plot.close();
        plots.delete(key);
      }
    const put = (box: HTMLElement, specs: Spec[]) => {
      const roots = specs.map((spec) => {
        const key = specText(spec);
        const plot = plots.get(key) ?? new Plot({
                       run: found.name,
                       spec,
                       cursor,
                       height: "small",
                       title: spec.indicator,
                       zoom: (range) => {
                         if (range !== null) {
                           change({step: range.last}, true);
                           shared.again();
                         }
                       }
                     });
        plots.set(key, plot);
        return plot.root;
      });
      if (roots.some((one, i) => box.children[i] !== one) || box.children.length !== roots.length) {
        box.replaceChildren(...roots);
      }
    };
    put(detailsBox, details);
    put(overviewBox, overview);
    replace(
        detailsTitle, unit === null ? "" : `Layer ${layer()}, ${page.unit} ${unit} `,
        unit !== null && button("Close", {
          class: "tool",
          click: () => {
            change({unit: null}, true);
            shared.again();
          }
        }));
    detailsTitle.hidden = unit === null;
    const range = ends();
    if (!plotsMemo.changed(keys, range, alerts, matchMedia("(prefers-color-scheme: dark)").matches))
      return;
    try {
      await Promise.all([...details, ...overview].map(
          (spec) => (plots.get(specText(spec)) as Plot)
                        .load(
                            found.series,
                            {first: range.first, last: Math.max(range.last, range.first + 1)},
                            spansOf(alerts, range.last, spec.indicator), [], signal)));
    } catch (error) {
      plotsMemo.changed(null);
      throw error;
    }
  }

  function choices(): string[] {
    const ids = [...watched.series]
                    .filter(
                        ([id, list]) => id.startsWith(page.prefix) &&
                            (list.length === 0 ||
                             list.some((one) => one.unit === `UNIT_${page.unit.toUpperCase()}`)))
                    .map(([id]) => id)
                    .sort();
    const asked = parameter("indicator");
    indicator = asked !== null && ids.includes(asked) ?
        asked :
        page.preferred.find((id) => ids.includes(id)) ?? ids[0] ?? "";
    indicators.set(ids.map((id) => [id, id]), indicator);
    return ids;
  }

  return {
    title: `${page.title}: ${wanted ?? ""}`,
    root,
    async refresh(signal) {
      const found = await watched.look(signal);
      if (found === null) {
        ready = false;
        return;
      }
      if (choices().length === 0) {
        ready = false;
        replace(
            root, runHead(found.name, page.view),
            notice(
                "empty", `This run has no ${page.title.toLowerCase()} values.`, page.empty, " ",
                link(url("run", {run: found.name}), {}, "What it has")));
        return;
      }
      // Where a run has too many series to list, those of the chosen indicator are asked for by
      // themselves.
      if ((watched.series.get(indicator) ?? []).length === 0) {
        const own = await get<{series: Series[]}>(
            "series", {run: found.name, indicator, limit: CELLS_MOST}, signal);
        watched.series.set(indicator, own.series);
      }
      if (!ready) {
        replace(
            root, runHead(found.name, page.view), tools, help, map.root, says, detailsTitle,
            detailsBox, overviewBox);
        ready = true;
      }
      mode.set(
          [
            ["", `layers × ${page.unit}s at a step`],
            ["steps", `${page.unit}s of a layer over steps`]
          ],
          over() ? "steps" : "");
      layers.set(
          layersOf(chosen()).map((one): [string, string] => [String(one), String(one)]),
          String(layer()));
      layers.root.hidden = !over();
      const {first, last} = ends();
      exactStep.root.hidden = (slider.parentElement as HTMLElement).hidden = newest.hidden = over();
      exactStep.set(stepParameter("step"), String(last));
      Object.assign(slider, {min: String(first), max: String(last)});
      if (document.activeElement !== slider) slider.value = String(step());
      help.textContent =
          `${(await catalogue()).get(indicator)?.help ?? ""}. Choose a cell to see more of the ${
              page.unit}.`;
      if (memo.changed(
              indicator, over(), layer(), step(), over() ? last : 0,
              matchMedia("(prefers-color-scheme: dark)").matches)) {
        try {
          map.draw(await (over() ? overSteps(found, signal) : atStep(found, signal)));
        } catch (error) {
          memo.changed(null);
          throw error;
        }
      }
      await drawPlots(found, watched.alerts, signal);
    },
    live: () => watched.run?.state === "RUN_STATE_LIVE",
    readdress: () => shared.again(),
    close() {
      map.close();
      plots.forEach((plot) => plot.close());
    },
  };
}

/** Heads: the spectra of the updates, the logits, the weights. */
export const ATTENTION: HeatPage = {
  view: "attention",
  title: "Attention",
  unit: "head",
  prefix: "attn.",
  preferred: ["attn.delta2.entropy_ratio_l1", "attn.delta2.entropy_ratio", "attn.logits.max"],
  scale: () => ({scale: "sequential"}),
  details: (layer, unit) => ["attn.delta2.entropy_ratio_l1",
                             "attn.delta2.effective_rank_l1",
                             "attn.delta2.stable_rank",
                             "attn.delta2.relative_norm",
                             "attn.delta_q.entropy_ratio_l1",
                             "attn.delta_k.entropy_ratio_l1",
                             "attn.qk.norm",
                             "attn.qk.stable_rank",
                             "attn.logits.max",
                             "attn.logits.entropy_ratio",
].map((indicator) => ({indicator, layer, unit: String(unit)})),
  overview: [{indicator: "attn.delta2.entropy_ratio_l1"}, {indicator: "attn.logits.max"}],
  empty:
      "The Python client watches attention by itself (docs/python.md says how, and what it needs).",
};

/** Experts: who gets the tokens, how sure the router is, how alike its rows are. */
export const ROUTER: HeatPage = {
  view: "router",
  title: "Router",
  unit: "expert",
  prefix: "load.",
  preferred: ["load.share"],
  scale: (indicator) =>
      indicator === "load.share" ? {scale: "diverging", middle: 1} : {scale: "sequential"},
  details: (layer, unit) => [{indicator: "load.share", layer, unit: String(unit)}],
  overview: [
    "router.token_entropy_ratio", "load.entropy_ratio", "router.weight_similarity",
    "load.dead_fraction", "load.max_violation", "router.margin_mean"
  ].map((indicator) => ({indicator})),
  says(layers, values) {
    const dead = values
                     .map((row, i) => {
                       const ids = row.flatMap((value, expert) => value < 0.01 ? [expert] : []);
                       return ids.length === 0 ? "" : `layer ${layers[i]}: ${ids.join(", ")}`;
                     })
                     .filter((text) => text !== "");
    const largest = Math.max(...values.flat().filter(Number.isFinite));
    return (dead.length === 0 ? "Every expert gets at least 1 % of the even load. " :
                                `Under 1 % of the even load at this step: ${dead.join("; ")}. `) +
        (Number.isFinite(largest) ? `The busiest gets ${short(largest)} times the even load.` : "");
  },
  empty:
      "Only models with experts have them; the Python client finds MoE routers by itself (docs/python.md).",
};

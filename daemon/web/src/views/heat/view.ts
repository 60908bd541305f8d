// Layer by unit (head, expert) as a heat map at a step, or one layer's units over steps; a cell
// opens the plots of its unit. The attention and router pages are this view with other words.
import {change, here, url, Values} from "../../base/address";
import {whole} from "../../base/format";
import {Memo} from "../../base/memo";
import {isRun, WatchedRun} from "../../base/runs";
import {catalogue, Spec} from "../../base/series";
import {isLive, stepsOf} from "../../base/steps";
import {runHead, showNoRun} from "../../parts/controls";
import {button, h, link, notice, replace, Stage} from "../../parts/dom";
import {Cursor} from "../../parts/drawing";
import {HeatMap} from "../../parts/heatmap";
import type {Shared, View} from "../../parts/live";
import {spansOf} from "../../parts/marks";
import {dark} from "../../parts/palette";
import {Plot} from "../../parts/plot";
import {arrange, PlotSet} from "../../parts/plot_set";
import {heatOf, Tools} from "./draw";
import {loadAtStep, loadOverSteps, loadSeries} from "./fetch";
import type {HeatPage} from "./pages";
import {cellAt, heatState, HeatState, indicatorsOf, plotsOf} from "./state";

const SLIDER_MS = 120;

export class HeatView implements View {
  readonly title: string;
  private readonly stage = new Stage(notice("wait", "Loading the run …"));
  readonly root = this.stage.root;
  private readonly watched = new WatchedRun(here().text("run"));
  private readonly map = new HeatMap(() => this.caption(), (row, column) => this.open(row, column));
  private readonly mapMemo = new Memo();
  private readonly says = h("p", {});
  private readonly help = h("p", {class: "faint"});
  private readonly detailsTitle = h("h2", {});
  private readonly details;
  private readonly overview = h("section", {class: "plots", "aria-label": "Plots of all layers"});
  private readonly cursor = new Cursor();
  private readonly plots = new PlotSet((spec) => this.plot(spec));
  private readonly tools;
  private state: HeatState|null = null;
  private waiting = 0;

  constructor(private readonly page: HeatPage, private readonly shared: Shared) {
    this.title = `${page.title}: ${this.watched.name ?? ""}`;
    this.details = h("section", {class: "plots", "aria-label": `Plots of the ${page.unit}`});
    this.tools = new Tools(page, {
      change: (values, soon) => this.change(values, soon),
      savePicture: () => this.map.savePicture(),
      saveDrawing: () => this.map.saveDrawing(),
      saveNumbers: () => this.map.saveNumbers(),
    });
  }

  async refresh(signal: AbortSignal): Promise<void> {
    const run = await this.watched.look(signal, () => this.shared.fresh);
    if (!isRun(run)) return showNoRun(this.stage, run);
    const {series, alerts} = this.watched;
    const {ids, shown} = indicatorsOf(this.page, here(), series);
    if (ids.length === 0) return this.showNothing(run.name);
    if ((series.get(shown) ?? []).length === 0)
      series.set(shown, await loadSeries(run.name, shown, signal));
    const state = heatState(this.page, here(), shown, series.get(shown) ?? [], stepsOf(run));
    this.state = state;
    this.stage.show(
        "map",
        () =>
            [runHead(run.name, this.page.view), this.tools.root, this.help, this.map.root,
             this.says, this.detailsTitle, this.details, this.overview]);
    this.tools.draw(ids, state, here().step("step"));
    this.help.textContent = `${(await catalogue()).get(shown)?.help ?? ""}. ` +
        `Choose a cell to see more of the ${this.page.unit}.`;
    await this.drawMap(run.name, state, signal);
    this.showPlots(state);
    const {first, last} = state.steps;
    const around = (spec: Spec) => ({spans: spansOf(alerts, last, spec.indicator), marks: []});
    await this.plots.load(
        [alerts], run.series, {first, last: Math.max(last, first + 1)}, around, signal);
  }

  live(): boolean {
    return isLive(this.watched.run);
  }

  readdress(): void {
    this.shared.again();
  }

  close(): void {
    clearTimeout(this.waiting);
    this.map.close();
    this.plots.close();
  }

  private change(values: Values, soon = false): void {
    change(values, !soon);
    clearTimeout(this.waiting);
    if (soon)
      this.waiting = window.setTimeout(() => this.shared.again(), SLIDER_MS);
    else
      this.shared.again();
  }

  private caption(): string {
    if (this.state === null) return "";
    const {indicator, over, layer, step} = this.state;
    return `${this.watched.name}: ${indicator}, ${over ? `layer ${layer}` : `step ${step}`}`;
  }

  private showNothing(run: string): void {
    this.stage.show(
        "nothing",
        () =>
            [runHead(run, this.page.view),
             notice(
                 "empty", `This run has no ${this.page.title.toLowerCase()} values.`,
                 this.page.empty, " ", link(url("run", {run}), {}, "What it has"))]);
  }

  private async drawMap(run: string, state: HeatState, signal: AbortSignal): Promise<void> {
    const {indicator, over, layer, step, steps} = state;
    const what = [indicator, over, over ? layer : step, over ? steps.last : 0, dark()];
    await this.mapMemo.run(what, async () => {
      const grid = await (over ? loadOverSteps : loadAtStep)(this.page, run, state, signal);
      this.says.textContent = over ? "" : this.page.says?.(grid.rows, grid.values) ?? "";
      this.map.draw(heatOf(this.page, state, grid));
    });
  }

  private open(row: number, column: number): void {
    const cell = this.state === null ? null : cellAt(this.state, row, column);
    if (cell === null) return;
    this.change({...cell});
    setTimeout(() => this.detailsTitle.scrollIntoView({block: "nearest", behavior: "smooth"}), 150);
  }

  private plot(spec: Spec): Plot {
    return new Plot({
      run: this.watched.name ?? "",
      spec,
      cursor: this.cursor,
      height: "small",
      title: spec.indicator,
      zoom: (range) => range !== null && this.change({step: range.last})
    });
  }

  private showPlots(state: HeatState): void {
    const {details, overview} = plotsOf(this.page, state, this.watched.series);
    const roots = this.plots.show([...details, ...overview]);
    arrange(this.details, roots.slice(0, details.length));
    arrange(this.overview, roots.slice(details.length));
    const close = button("Close", {class: "tool", click: () => this.change({unit: null})});
    const {layer, unit} = state;
    this.detailsTitle.hidden = unit === null;
    replace(
        this.detailsTitle,
        ...unit === null ? [] : [`Layer ${layer}, ${this.page.unit} ${whole(unit)} `, close]);
  }
}

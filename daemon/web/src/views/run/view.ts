// One run: its state, what fires, what happened along its steps, and plots that share range and
// cursor.
import {change, here} from "../../base/address";
import type {Run} from "../../base/api";
import {Memo} from "../../base/memo";
import {isRun, WatchedRun} from "../../base/runs";
import {Spec, specText} from "../../base/series";
import {isLive, paceOf, stepsOf} from "../../base/steps";
import {runHead, showNoRun} from "../../parts/controls";
import {h, notice, Stage} from "../../parts/dom";
import {Cursor} from "../../parts/drawing";
import type {Shared, View} from "../../parts/live";
import {attemptMarks, levels, spansOf} from "../../parts/marks";
import {Plot} from "../../parts/plot";
import {arrange, PlotSet} from "../../parts/plot_set";
import {Timeline} from "../../parts/timeline";
import {Adder, Facts, Firing, RangeBar} from "./draw";
import {loadNews, News} from "./fetch";
import {moved, scaled, shownSpecs, shownSteps} from "./state";

export class RunView implements View {
  readonly title: string;
  private readonly stage = new Stage(notice("wait", "Loading the run …"));
  readonly root = this.stage.root;
  private readonly facts = new Facts();
  private readonly firing = new Firing();
  private readonly timeline = new Timeline();
  private readonly timelineMemo = new Memo();
  private readonly grid = h("section", {class: "plots", "aria-label": "Plots"});
  private readonly cursor = new Cursor();
  private readonly watched = new WatchedRun(here().text("run"));
  private news: News = {events: [], pace: paceOf([])};
  private readonly range = new RangeBar({
    scale: (factor) => this.zoom(scaled(this.steps(), factor)),
    move: (share) => this.zoom(moved(this.steps(), share)),
    zoom: (to) => this.zoom(to),
  });
  private readonly adder = new Adder((spec) => this.choose([...this.without(spec), spec]));
  private readonly plots = new PlotSet((spec) => new Plot({
                                         run: this.watched.name ?? "",
                                         spec,
                                         cursor: this.cursor,
                                         zoom: (to) => this.zoom(to),
                                         remove: () => this.choose(this.without(spec))
                                       }));

  constructor(private readonly shared: Shared) {
    this.title = this.watched.name ?? "Run";
  }

  async refresh(signal: AbortSignal): Promise<void> {
    const run = await this.watched.look(signal, async (found) => {
      [this.news] = await Promise.all([loadNews(found, signal), this.shared.fresh]);
    });
    if (!isRun(run)) return showNoRun(this.stage, run);
    this.stage.show(
        "run",
        () =>
            [runHead(run.name, "run"), this.facts.root, this.firing.root, this.range.root,
             this.timeline.root, this.grid, h("h2", {}, "Add a plot"), this.adder.root]);
    this.facts.draw(run, this.news.pace);
    this.firing.draw(run.name, this.watched.alerts);
    this.adder.draw(this.watched.series);
    this.drawRange(run);
    await this.drawPlots(run, signal);
  }

  live(): boolean {
    return isLive(this.watched.run);
  }

  /** Another range of what is known, without asking for the rest again. */
  readdress(): void {
    const {run} = this.watched;
    if (run === null) return;
    this.drawRange(run);
    this.drawPlots(run).catch(() => this.shared.again());
  }

  close(): void {
    this.plots.close();
  }

  private steps() {
    return shownSteps(here(), this.watched.run);
  }

  private zoom(to: {first: number|null; last: number | null}|null): void {
    change({first: to?.first ?? null, last: to?.last ?? null}, true);
    this.readdress();
  }

  private specs(): Spec[] {
    const firing = this.shared.firing.filter((alert) => alert.run === this.watched.name);
    return shownSpecs(here(), [...this.watched.series.keys()], firing);
  }

  private without(spec: Spec): Spec[] {
    return this.specs().filter((one) => specText(one) !== specText(spec));
  }

  private choose(specs: Spec[]): void {
    change({plot: specs.map(specText)}, true);
    this.shared.again();
  }

  private drawRange(run: Run): void {
    const {first, last} = this.steps();
    this.range.draw({first: here().step("first"), last: here().step("last")}, stepsOf(run));
    const {alerts} = this.watched;
    if (this.timelineMemo.changed(run.attempts, alerts, this.news.events, first, last))
      this.timeline.draw(run, alerts, this.news.events, first, last);
  }

  private async drawPlots(run: Run, signal?: AbortSignal): Promise<void> {
    const roots = this.plots.show(this.specs());
    arrange(this.grid, roots.length > 0 ? roots : [
      notice("empty", "No values yet.", "Plots appear with the first steps.")
    ]);
    const {alerts} = this.watched;
    const steps = this.steps();
    const end = stepsOf(run)?.last ?? steps.last;
    const around = (spec: Spec) => ({
      spans: spansOf(alerts, end, spec.indicator),
      marks: [...attemptMarks(run), ...levels(alerts, spec, end)]
    });
    await this.plots.load([run, alerts], run.series, steps, around, signal);
  }
}

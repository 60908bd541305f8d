// Two runs over each other, or a run over the band that a rule takes for healthy: any indicator, by
// step or by tokens.
import {change, here, url, Values} from "../../base/address";
import {ApiError, get, Run} from "../../base/api";
import {Memo} from "../../base/memo";
import {findRun, isRun, NoRun} from "../../base/runs";
import {listIndicators} from "../../base/series";
import {isLive, stepsOf} from "../../base/steps";
import {runHead, showNoRun} from "../../parts/controls";
import {h, link, notice, Stage} from "../../parts/dom";
import type {Shared, View} from "../../parts/live";
import {dark} from "../../parts/palette";
import {ComparisonChart, Tools} from "./draw";
import {listBands, loadBands, loadSide} from "./fetch";
import {compareState, CompareState, pairOf} from "./state";

export class CompareView implements View {
  readonly title = "Compare";
  private readonly stage = new Stage(notice("wait", "Loading …"));
  readonly root = this.stage.root;
  private readonly head = new Stage();
  private readonly tools = new Tools((values) => this.change(values));
  private readonly chart =
      new ComparisonChart((range) => this.change({first: range?.first, last: range?.last}));
  private readonly memo = new Memo();
  private runs: Run[] = [];  // that are shown

  constructor(private readonly shared: Shared) {}

  async refresh(signal: AbortSignal): Promise<void> {
    const [{runs}, bands] =
        await Promise.all([get<{runs: Run[]}>("runs", {}, signal), listBands(signal)]);
    const pair = pairOf(here(), runs, bands);
    if (pair === null) return this.showNothing(runs.length);
    const named = pair.b === null ? [pair.a] : [pair.a, pair.b];
    const found = await Promise.all(named.map((name) => findRun(name, signal)));
    const none = found.find((one): one is NoRun => !isRun(one));
    if (none !== undefined) return showNoRun(this.stage, none);
    this.runs = found.filter(isRun);
    const listed = await Promise.all(this.runs.map((run) => listIndicators(run.name, signal)));
    const state = compareState(here(), pair, listed, bands);
    this.stage.show("chart", () => [this.head.root, this.tools.root, this.chart.root]);
    const of = here().text("a");
    this.head.show(
        `of ${of}`, () => [of === null ? h("h1", {}, "Compare") : runHead(of, "compare")]);
    this.tools.draw(runs, state);
    await this.drawChart(state, signal);
  }

  live(): boolean {
    return this.runs.some(isLive);
  }

  readdress(): void {
    this.shared.again();
  }

  close(): void {
    this.chart.close();
  }

  private change(values: Values): void {
    change(values, true);
    this.shared.again();
  }

  private showNothing(runs: number): void {
    this.stage.show(
        `nothing, ${runs} runs`,
        () =>
            [h("h1", {}, "Compare"),
             notice(
                 "empty", "Comparing takes two runs, or a rule with a reference band.",
                 `There ${runs === 1 ? "is one run" : "is none"} so far. `,
                 link(url("runs"), {}, "Runs"))]);
  }

  private async drawChart(state: CompareState, signal: AbortSignal): Promise<void> {
    const {runs} = this;
    const range = {first: here().step("first"), last: here().step("last")};
    const steps = runs.map((run) => [run.name, stepsOf(run)]);
    await this.memo.run([steps, state, range, dark()], async () => {
      try {
        const bands = await loadBands(state, signal);
        const width = this.root.clientWidth;
        const sides =
            await Promise.all(runs.map((run) => loadSide(run, state, bands, width, signal)));
        this.chart.draw({state, sides, bands}, range);
      } catch (error) {
        if (error instanceof ApiError) this.chart.refuse(error.message);
        throw error;
      }
    });
  }
}

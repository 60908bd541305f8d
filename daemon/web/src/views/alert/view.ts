// One alert: what it is in a sentence, what to do, what moved first, with plots of the evidence.
import {here} from "../../base/address";
import type {Alert, Run} from "../../base/api";
import {headline, whole} from "../../base/format";
import {Memo} from "../../base/memo";
import {findRun, isRun} from "../../base/runs";
import {Spec, specText} from "../../base/series";
import {stepsOf} from "../../base/steps";
import {showNoRun} from "../../parts/controls";
import {h, notice, replace, Stage} from "../../parts/dom";
import {Cursor} from "../../parts/drawing";
import type {Shared, View} from "../../parts/live";
import {levels, spansOf} from "../../parts/marks";
import {Plot} from "../../parts/plot";
import {arrange, PlotSet} from "../../parts/plot_set";
import {alertActions} from "./actions";
import {evidence, facts, head, missing, silenced, takenOn, whatToDo} from "./draw";
import {Context, findAlert, loadContext} from "./fetch";
import {movedAt, plotsOf, stepsAround} from "./state";

export class AlertView implements View {
  title = "Alert";
  private readonly stage = new Stage(notice("wait", "Loading the alert …"));
  readonly root = this.stage.root;
  private readonly top = h("div", {});
  private readonly actions = h("div", {});
  private readonly evidence = h("div", {});
  private readonly plotsBox = h("section", {class: "plots", "aria-label": "Plots of the evidence"});
  private readonly cursor = new Cursor();
  private readonly plots = new PlotSet(
      (spec) => new Plot({run: this.alert?.run ?? "", spec, cursor: this.cursor, height: "small"}));
  private readonly topMemo = new Memo();
  private readonly actionsMemo = new Memo();
  private readonly asked = {run: here().text("run"), id: here().text("id")};
  private alert: Alert|null = null;

  constructor(private readonly shared: Shared) {}

  async refresh(signal: AbortSignal): Promise<void> {
    const named = this.asked.run === null ? null : await findRun(this.asked.run, signal);
    if (named !== null && !isRun(named)) return showNoRun(this.stage, named);
    const alert = this.alert = await findAlert(this.asked.run, this.asked.id, signal);
    if (alert === null) return this.stage.show("missing", () => [missing(this.asked.run)]);
    this.title = `${headline(alert)} in ${alert.run}`;
    this.stage.show("alert", () => [this.top, this.actions, this.evidence, this.plotsBox]);
    const [context] = await Promise.all([loadContext(alert, signal), this.shared.fresh]);
    this.draw(alert, context);
    const run = named ?? await findRun(alert.run, signal);
    if (isRun(run)) await this.drawPlots(alert, run, signal);
  }

  live(): boolean {
    return this.alert?.state === "ALERT_STATE_FIRING";
  }

  close(): void {
    this.plots.close();
  }

  private draw(alert: Alert, context: Context): void {
    if (this.topMemo.changed(alert, context)) {
      const silences = context.silences.filter((one) => alert.silenced_by.includes(one.id));
      replace(
          this.top, head(alert), h("p", {class: "summary"}, alert.summary), facts(alert, context),
          whatToDo(alert), takenOn(alert), ...silences.map(silenced));
      replace(this.evidence, evidence(alert));
    }
    if (this.actionsMemo.changed(alert.state)) {
      const firing = alert.state === "ALERT_STATE_FIRING";
      replace(this.actions, firing && alertActions(alert, () => this.shared.again()));
    }
  }

  private async drawPlots(alert: Alert, run: Run, signal: AbortSignal): Promise<void> {
    const specs = plotsOf(alert);
    arrange(this.plotsBox, this.plots.show(specs));
    const last = stepsOf(run)?.last ?? Number(alert.pending_step);
    const around = (spec: Spec) => {
      const at = movedAt(alert, spec.indicator);
      return {
        spans: spansOf([alert], last, alert.indicator),
        marks: [
          {kind: "step" as const, at, text: `moved ${whole(at)}`}, ...levels([alert], spec, last)
        ]
      };
    };
    await this.plots.load(
        [specs.map(specText), last], run.series, stepsAround(alert, run), around, signal);
  }
}

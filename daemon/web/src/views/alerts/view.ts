// Alerts of all runs or of one: what fires first, the worst first; what is over below.
import {change, here, url} from "../../base/address";
import type {Alert} from "../../base/api";
import {Memo} from "../../base/memo";
import {stepsOf} from "../../base/steps";
import {alertCard, runHead, select, showNoRun} from "../../parts/controls";
import {button, h, link, notice, replace, Stage} from "../../parts/dom";
import type {Shared, View} from "../../parts/live";
import {Timeline} from "../../parts/timeline";
import {loadAll, loadOwn, OwnAlerts} from "./fetch";
import {Parts, partsOf, wantedBy} from "./state";

const SHOWN_FIRST = 40;

export class AlertsView implements View {
  private readonly run = here().text("run");  // null: all
  readonly title = this.run === null ? "Alerts" : `Alerts of ${this.run}`;
  private readonly info: HTMLInputElement =
      h("input",
        {type: "checkbox", change: () => this.change({info: this.info.checked ? "1" : null})});
  private readonly severity = select("Severity", (severity) => this.change({severity}));
  private readonly timeline = new Timeline();
  private readonly count = h("p", {class: "faint"});
  private readonly body = h("div", {});
  private readonly stage = new Stage(
      this.run === null ? h("h1", {}, "Alerts") : runHead(this.run, "alerts"),
      h("div", {class: "toolbar"}, this.severity.root,
        h("label", {class: "field inline"}, this.info,
          h("span", {}, "show single indicators (info)"))),
      this.timeline.root, this.count, this.body);
  readonly root = this.stage.root;
  private readonly memo = new Memo();
  private readonly timelineMemo = new Memo();
  private alerts: Alert[]|null = null;
  private runs = 0;
  private shownMost = SHOWN_FIRST;

  constructor(private readonly shared: Shared) {
    this.readdress();
  }

  async refresh(signal: AbortSignal): Promise<void> {
    if (this.run === null) {
      [{alerts: this.alerts, runs: this.runs}] =
          await Promise.all([loadAll(signal), this.shared.fresh]);
    } else {
      const [own] = await Promise.all([loadOwn(this.run, signal), this.shared.fresh]);
      if (!("run" in own)) return showNoRun(this.stage, own);
      [this.alerts, this.runs] = [own.alerts, 1];
      this.drawTimeline(own);
    }
    this.draw();
  }

  live(): boolean {
    return (this.alerts ?? []).length > 0 || (this.shared.status?.streams ?? 0) > 0;
  }

  readdress(): void {
    const {info, severity} = wantedBy(here());
    this.info.checked = info;
    this.severity.set(
        [["", "all"], ["critical", "critical"], ["warning", "warning"]], severity ?? "");
    this.draw();
  }

  private change(values: {[name: string]: string|null}): void {
    change(values);
    this.draw();
  }

  private drawTimeline({run, alerts, events}: OwnAlerts): void {
    const steps = stepsOf(run);
    if (steps !== null && this.timelineMemo.changed(run.attempts, alerts, events))
      this.timeline.draw(run, alerts, events, steps.first, steps.last);
  }

  private draw(): void {
    if (this.alerts === null) return;
    const parts = partsOf(this.alerts, wantedBy(here()));
    if (!this.memo.changed(parts, this.shownMost, this.runs)) return;
    const {firing, pending, over, shown, hidden} = parts;
    this.count.textContent = `${firing.length} firing, ${over.length} over` +
        (hidden > 0 ? `, ${hidden} more not shown` : "");
    const showAll = () => {
      this.shownMost = Infinity;
      this.draw();
    };
    replace(
        this.body, firing.length === 0 && this.nothingFires(parts), this.part("Firing", firing),
        this.part("Pending", pending), this.part("Over", over),
        shown > this.shownMost && button(`Show all ${shown}`, {click: showAll}));
  }

  private part(title: string, alerts: Alert[]): HTMLElement|null {
    if (alerts.length === 0) return null;
    const cards =
        alerts.slice(0, this.shownMost).map((alert) => alertCard(alert, this.run === null));
    return h("section", {}, h("h2", {}, title), h("div", {class: "cards"}, ...cards));
  }

  private nothingFires({hidden}: Parts): HTMLElement {
    if (this.runs === 0) {
      return notice(
          "empty", "Nothing fires.", "No run has reported yet, so there is nothing to judge.");
    }
    return notice(
        "empty", "Nothing fires.", "What the rules judge is in the list of ",
        link(url("rules"), {}, "rules"),
        hidden > 0 ? ". Single indicators that moved can be shown above." : ".");
  }
}

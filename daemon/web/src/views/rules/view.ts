// What judges: every rule and signature in force, and what it has found.
import {change, here, url} from "../../base/address";
import {Alert, get, Rule, RuleFile, Run} from "../../base/api";
import {Memo} from "../../base/memo";
import {severityBadge} from "../../parts/controls";
import {button, cell, h, link, notice, replace, table} from "../../parts/dom";
import type {Shared, View} from "../../parts/live";
import {BacktestForm} from "./backtest";
import {Counts, grouped, judges, matching} from "./state";

const ALERTS_MOST = 10_000;
const TITLES = ["Rule", "Severity", "Judges", "Firing", "Over", "Says"];

export class RulesView implements View {
  readonly title = "Rules";
  private readonly filter = h("input", {
    type: "search",
    placeholder: "Filter",
    "aria-label": "Filter rules",
    value: here().text("name") ?? "",
    input:
        () => {
          change({name: this.filter.value});
          this.draw();
        }
  });
  private readonly body = h("div", {});
  private readonly backtest = new BacktestForm();
  readonly root =
      h("div", {}, h("div", {class: "title-row"}, h("h1", {}, "Rules"), this.filter), this.body,
        this.backtest.root);
  private readonly memo = new Memo();
  private rules: Rule[]|null = null;
  private alerts: Alert[] = [];

  constructor(private readonly shared: Shared) {}

  async refresh(signal: AbortSignal): Promise<void> {
    const [{rules, files}, {alerts}, {runs}] = await Promise.all([
      get<{rules: Rule[]; files: RuleFile[]}>("rules", {files: 1}, signal),
      get<{alerts: Alert[]}>("alerts", {limit: ALERTS_MOST}, signal),
      get<{runs: Run[]}>("runs", {}, signal), this.shared.fresh
    ]);
    [this.rules, this.alerts] = [rules, alerts];
    this.draw();
    this.backtest.offer(files, runs);
  }

  live(): boolean {
    return false;
  }

  readdress(): void {
    this.filter.value = here().text("name") ?? "";
    this.draw();
  }

  private draw(): void {
    if (this.rules === null) return;
    const shown = matching(this.rules, this.filter.value);
    if (!this.memo.changed(shown, this.alerts)) return;
    if (this.rules.length === 0) return replace(this.body, noRules());
    const counts = new Counts(this.alerts);
    replace(
        this.body,
        h("p", {class: "faint"},
          `${this.rules.length} rules and signatures, ${shown.length} shown`),
        ...grouped(shown).map(([group, rules]) => this.group(group, rules, counts)),
        shown.length === 0 && notice("empty", "No rule has this in its name, group or indicator."),
        link(url("alerts"), {}, "The alerts they made"));
  }

  private group(title: string, rules: Rule[], counts: Counts): HTMLElement {
    return h(
        "section", {}, h("h2", {class: "group"}, h("bdi", {}, title)),
        table("rules", TITLES, rules.map((rule) => this.row(rule, counts))));
  }

  private row(rule: Rule, counts: Counts): HTMLElement {
    const {firing, over} = counts.of(rule.name);
    const edit = button("Try an edit", {
      class: "tool",
      "aria-label": `Try an edit of ${rule.name}`,
      "data-key": `edit ${rule.name}`,
      click: () => this.backtest.edit(rule)
    });
    return h(
        "tr", {}, cell("Rule", h("bdi", {}, rule.name), " ", edit),
        cell("Severity", severityBadge(rule.severity)),
        cell("Judges", rule.indicator === "" ? judges(rule) : h("code", {}, judges(rule))),
        cell("Firing", firing), cell("Over", over), cell("Says", rule.summary));
  }
}

function noRules(): HTMLElement {
  return notice(
      "empty", "No rules are loaded: nothing will ever warn.",
      "Name rule files in the configuration (", h("code", {}, "rules:"), ") or with ",
      h("code", {}, "--rules"), ".");
}

// What judges: every rule and signature in force, and what it has found.
import {Alert, get, Rule, RuleFile, Run} from "./api";
import {BacktestForm} from "./backtest";
import {severityBadge} from "./controls";
import {button, h, link, Memo, notice, replace} from "./dom";

import type {Shared, View} from "./live";
import {change, parameter, url} from "./url";

export function rulesView(shared: Shared): View {
  const filter = h("input", {
    type: "search",
    placeholder: "Filter",
    "aria-label": "Filter rules",
    value: parameter("name") ?? "",
    input: () => {
      change({name: filter.value});
      draw();
    }
  });
  const body = h("div", {});
  const backtest = new BacktestForm();
  const root = h(
      "div", {}, h("div", {class: "title-row"}, h("h1", {}, "Rules"), filter), body, backtest.root);
  const memo = new Memo();
  let rules: Rule[]|null = null;
  let alerts: Alert[] = [];

  function draw(): void {
    if (rules === null) return;
    const wanted = filter.value.toLowerCase();
    const shown = rules.filter(
        (rule) =>
            `${rule.name} ${rule.indicator} ${rule.group} ${rule.severity}`.toLowerCase().includes(
                wanted));
    if (!memo.changed(shown, alerts)) return;
    if (rules.length === 0) {
      replace(
          body,
          notice(
              "empty", "No rules are loaded: nothing will ever warn.",
              "Name rule files in the configuration (", h("code", {}, "rules:"), ") or with ",
              h("code", {}, "--rules"), "."));
      return;
    }
    const count = (rule: Rule, firing: boolean) =>
        alerts
            .filter(
                (alert) =>
                    alert.rule === rule.name && (alert.state === "ALERT_STATE_FIRING") === firing)
            .length;
    const editButton = (rule: Rule) => button("Try an edit", {
      class: "tool",
      "aria-label": `Try an edit of ${rule.name}`,
      "data-key": `edit ${rule.name}`,
      click: () => backtest.edit(rule)
    });
    const groups = new Map<string, Rule[]>();
    for (const rule of shown) {
      const key = rule.group === "" ? rule.file : `${rule.group} · ${rule.file}`;
      groups.set(key, [...groups.get(key) ?? [], rule]);
    }
    replace(
        body,
        h("p", {class: "faint"}, `${rules.length} rules and signatures, ${shown.length} shown`),
        ...[...groups].map(
            ([group, list]) =>
                h("section", {}, h("h2", {class: "group"}, h("bdi", {}, group)),
                  h("table", {class: "stack rules"},
                    h("thead", {},
                      h("tr", {},
                        ...["Rule", "Severity", "Judges", "Firing", "Over", "Says"].map(
                            (title) => h("th", {scope: "col"}, title)))),
                    h("tbody", {},
                      ...list.map(
                          (rule) =>
                              h("tr", {},
                                h("td", {"data-title": "Rule"}, h("bdi", {}, rule.name), " ",
                                  editButton(rule)),
                                h("td", {"data-title": "Severity"}, severityBadge(rule.severity)),
                                h("td", {"data-title": "Judges"},
                                  rule.indicator !== ""           ? h("code", {}, rule.indicator) :
                                      rule.group === "signatures" ? "several rules together" :
                                                                    "the run itself"),
                                h("td", {"data-title": "Firing"}, count(rule, true)),
                                h("td", {"data-title": "Over"}, count(rule, false)),
                                h("td", {"data-title": "Says"}, rule.summary))))))),
        shown.length === 0 && notice("empty", "No rule has this in its name, group or indicator."),
        link(url("alerts"), {}, "The alerts they made"));
  }

  return {
    title: "Rules",
    root,
    async refresh(signal) {
      const [answer, made, stored] = await Promise.all([
        get<{rules: Rule[]; files: RuleFile[]}>("rules", {files: 1}, signal),
        get<{alerts: Alert[]}>("alerts", {limit: 10_000}, signal),
        get<{runs: Run[]}>("runs", {}, signal), shared.fresh
      ]);
      rules = answer.rules;
      alerts = made.alerts;
      draw();
      backtest.offer(answer.files, stored.runs);
    },
    live: () => false,
    readdress() {
      filter.value = parameter("name") ?? "";
      draw();
    },
  };
}

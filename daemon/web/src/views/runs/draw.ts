// The table of runs, and what stands in its place where there is none.
import {url} from "../../base/address";
import type {Alert, Run} from "../../base/api";
import {short, time, whole} from "../../base/format";
import {isLive} from "../../base/steps";
import {severityBadge, stateBadge} from "../../parts/controls";
import {button, cell, Child, h, link, name, notice, table} from "../../parts/dom";
import {sparkline} from "../../parts/sparkline";
import type {Extra} from "./fetch";
import {firingOf} from "./state";

const TITLES = ["Run", "State", "Last step", "Steps/s", "Firing", "Loss", "Attempts"];

export function runTable(
    runs: Run[], extraOf: (run: Run) => Extra | undefined, firing: Alert[]): HTMLElement {
  return table("", TITLES, runs.map((run) => row(run, extraOf(run), firing)));
}

function row(run: Run, extra: Extra|undefined, firing: Alert[]): HTMLElement {
  const attempt = run.attempts[run.attempts.length - 1];
  const live = isLive(run);
  const newest = time(extra?.pace.newestNs);
  const speed = extra?.pace.stepsPerSecond;
  return h(
      "tr", {}, cell("Run", link(url("run", {run: run.name}), {}, name(run.name))),
      cell("State", stateBadge(run.state)),
      cell(
          "Last step", h("b", {}, whole(run.last_step)),
          newest !== "" && h("div", {class: "faint"}, newest)),
      cell("Steps/s", live && speed ? short(speed) : "–"),
      cell("Firing", ...firingBadges(run, firing)),
      cell("Loss", extra?.loss ? sparkline("Loss", extra.loss) : "–"),
      cell(
          "Attempts", attempt === undefined ? "–" : run.attempts.length,
          attempt !== undefined && live &&
              h("span", {class: "faint"},
                ` ${attempt.ranks_connected} of ${attempt.world_size} ranks`)));
}

function firingBadges(run: Run, firing: Alert[]): Child[] {
  const badges = firingOf(run, firing);
  if (badges.length === 0) return ["none"];
  return badges.map(
      ({severity, count}) => link(
          url("alerts", {run: run.name}), {"data-key": `${run.name} ${severity}`, class: "plain"},
          severityBadge(severity), ` ${count}`));
}

export function noneYet(): HTMLElement {
  return notice(
      "empty", "No run has reported yet.", "Start one with the Python client (",
      h("code", {}, "foreshock.watch(model, optimizer, run=\"…\")"),
      ") or replay a recorded one: ", h("code", {}, "foreshock replay FILE"),
      ". It appears here by itself.");
}

export function noneNamedSo(showAll: () => void): HTMLElement {
  return notice("empty", "No run has this in its name.", button("Show all runs", {click: showAll}));
}

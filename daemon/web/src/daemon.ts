// The daemon's own health, and the silences in force.
import {get, post, refusal, Silence, Status} from "./api";
import {button, h, link, Memo, notice, replace} from "./dom";

import {bytes, duration, short, time, whole} from "./format";
import type {Shared, View} from "./live";
import {url} from "./url";

export function daemonView(shared: Shared): View {
  const health = h("div", {});
  const silencesBox = h("div", {});
  const outcome = h("output", {class: "outcome", role: "status"});
  const root =
      h("div", {}, h("h1", {}, "Daemon"), health, h("h2", {}, "Silences in force"), silencesBox,
        outcome);
  const memo = new Memo();
  let before: {at: number; status: Status}|null = null;

  function good(fine: boolean, yes: string, no: string): HTMLElement {
    return h("span", {class: `badge ${fine ? "fine" : "critical"}`}, fine ? yes : no);
  }

  function draw(status: Status): void {
    const now = performance.now();
    const rate = (of: (one: Status) => string) => {
      if (before === null || before.status.started_unix_ns !== status.started_unix_ns) return "";
      const seconds = (now - before.at) / 1000;
      return ` · ${short((Number(of(status)) - Number(of(before.status))) / seconds)}/s`;
    };
    const fact = (title: string, ...content: (Node|string)[]) =>
        h("div", {}, h("dt", {}, title), h("dd", {}, ...content));
    const up = Date.now() / 1000 - Number(status.started_unix_ns) / 1e9;
    replace(
        health,
        !status.store_writable &&
            notice(
                "error", "The store cannot be written.",
                "Ranks keep what they have and send it later. Is the disk full, or read-only? Its directory is ",
                h("code", {}, status.data_directory), "."),
        !status.config_last_reload_successful &&
            notice(
                "error", "The last reload failed.",
                "The rules and settings before it stay in force; the daemon's log says what is wrong."),
        h("dl", {class: "facts"},
          fact(
              "Ready", good(status.ready, "ready", status.draining ? "shutting down" : "starting")),
          fact("Store", good(status.store_writable, "writable", "not writable")),
          fact(
              "Rules",
              good(
                  status.config_last_reload_successful, `${status.rules_loaded} loaded`,
                  "reload failed"),
              " ", link(url("rules"), {}, "list")),
          fact("Version", status.version),
          fact("Up", `${duration(up)} · since ${time(status.started_unix_ns)}`),
          fact("Runs", whole(status.runs)), fact("Streams of ranks", whole(status.streams)),
          fact("Series", whole(status.series)),
          fact("Alerts firing", `${whole(status.alerts_firing)} (info included)`),
          fact(
              "Reports committed",
              whole(status.reports_committed) + rate((one) => one.reports_committed)),
          fact("Points written", whole(status.points_written) + rate((one) => one.points_written)),
          fact("Sent again", whole(status.reports_duplicate)),
          fact("Refused summaries", whole(status.summaries_rejected)),
          fact("Open steps", whole(status.open_steps)),
          fact("Store on disk", bytes(status.store_bytes)),
          fact("Memory", bytes(status.resident_bytes)),
          fact("Data directory", h("code", {}, status.data_directory))));
    before = {at: now, status};
  }

  async function expire(silence: Silence): Promise<void> {
    try {
      await post("silences/expire", {id: silence.id});
      outcome.className = "outcome good";
      outcome.textContent = "The silence is over; what it kept quiet is told if it still fires.";
    } catch (error) {
      outcome.className = "outcome bad";
      outcome.textContent = refusal(error);
    }
    shared.again();
  }

  function drawSilences(silences: Silence[]): void {
    if (!memo.changed(silences)) return;
    if (silences.length === 0) {
      replace(
          silencesBox,
          notice("empty", "None: whoever is named in the configuration is told of every alert."));
      return;
    }
    replace(
        silencesBox,
        h("table", {class: "stack"},
          h("thead", {},
            h("tr", {},
              ...["Matches", "Until", "By", "Why", ""].map(
                  (title) => h("th", {scope: "col"}, title)))),
          h("tbody", {},
            ...silences.map(
                (silence) => h(
                    "tr", {},
                    h("td", {"data-title": "Matches"}, h("code", {}, silence.matchers.join(", "))),
                    h("td", {"data-title": "Until"}, time(silence.ends_unix_ns)),
                    h("td", {"data-title": "By"}, h("bdi", {}, silence.by)),
                    h("td", {"data-title": "Why"}, h("bdi", {}, silence.why)),
                    h("td", {},
                      button(
                          "End now",
                          {"data-key": silence.id, click: () => void expire(silence)})))))));
  }

  return {
    title: "Daemon",
    root,
    async refresh(signal) {
      const [{silences}] =
          await Promise.all([get<{silences: Silence[]}>("silences", {}, signal), shared.fresh]);
      if (shared.status !== null) draw(shared.status);
      drawSilences(silences);
    },
    live: () => true,
  };
}

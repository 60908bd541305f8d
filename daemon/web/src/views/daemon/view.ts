// The daemon's own health, and the silences in force.
import {url} from "../../base/address";
import {get, post, refusal, Silence, Status} from "../../base/api";
import {bytes, duration, short, time, whole} from "../../base/format";
import {Memo} from "../../base/memo";
import {button, cell, fact, h, link, notice, replace, table} from "../../parts/dom";
import type {Shared, View} from "../../parts/live";

type Rate = (of: (status: Status) => string) => string;

export class DaemonView implements View {
  readonly title = "Daemon";
  private readonly health = h("div", {});
  private readonly silences = h("div", {});
  private readonly outcome = h("output", {class: "outcome", role: "status"});
  readonly root =
      h("div", {}, h("h1", {}, "Daemon"), this.health, h("h2", {}, "Silences in force"),
        this.silences, this.outcome);
  private readonly memo = new Memo();
  private before: {at: number; status: Status}|null = null;

  constructor(private readonly shared: Shared) {}

  async refresh(signal: AbortSignal): Promise<void> {
    const [{silences}] =
        await Promise.all([get<{silences: Silence[]}>("silences", {}, signal), this.shared.fresh]);
    const {status} = this.shared;
    if (status !== null) {
      replace(this.health, ...problems(status), facts(status, this.rateUpTo(status)));
      this.before = {at: performance.now(), status};
    }
    this.drawSilences(silences);
  }

  live(): boolean {
    return true;
  }

  /** How fast a counter has grown since the last round; "" where that is not known. */
  private rateUpTo(status: Status): Rate {
    const {before} = this;
    if (before === null || before.status.started_unix_ns !== status.started_unix_ns)
      return () => "";
    const seconds = (performance.now() - before.at) / 1000;
    return (of) => ` · ${short((Number(of(status)) - Number(of(before.status))) / seconds)}/s`;
  }

  private drawSilences(silences: Silence[]): void {
    if (!this.memo.changed(silences)) return;
    replace(
        this.silences,
        silences.length === 0 ?
            notice("empty", "None: whoever is named in the configuration is told of every alert.") :
            table("", ["Matches", "Until", "By", "Why", ""], silences.map((one) => this.row(one))));
  }

  private row(silence: Silence): HTMLElement {
    const end = button("End now", {"data-key": silence.id, click: () => void this.expire(silence)});
    return h(
        "tr", {}, cell("Matches", h("code", {}, silence.matchers.join(", "))),
        cell("Until", time(silence.ends_unix_ns)), cell("By", h("bdi", {}, silence.by)),
        cell("Why", h("bdi", {}, silence.why)), h("td", {}, end));
  }

  private async expire(silence: Silence): Promise<void> {
    try {
      await post("silences/expire", {id: silence.id});
      this.say(true, "The silence is over; what it kept quiet is told if it still fires.");
    } catch (error) {
      this.say(false, refusal(error));
    }
    this.shared.again();
  }

  private say(good: boolean, text: string): void {
    this.outcome.className = `outcome ${good ? "good" : "bad"}`;
    this.outcome.textContent = text;
  }
}

function problems(status: Status): HTMLElement[] {
  const found: HTMLElement[] = [];
  if (!status.store_writable) {
    found.push(notice(
        "error", "The store cannot be written.",
        "Ranks keep what they have and send it later. Is the disk full, or read-only? Its directory is ",
        h("code", {}, status.data_directory), "."));
  }
  if (!status.config_last_reload_successful) {
    found.push(notice(
        "error", "The last reload failed.",
        "The rules and settings before it stay in force; the daemon's log says what is wrong."));
  }
  return found;
}

function badge(fine: boolean, yes: string, no: string): HTMLElement {
  return h("span", {class: `badge ${fine ? "fine" : "critical"}`}, fine ? yes : no);
}

function facts(status: Status, rate: Rate): HTMLElement {
  const up = Date.now() / 1000 - Number(status.started_unix_ns) / 1e9;
  return h(
      "dl", {class: "facts"},
      fact("Ready", badge(status.ready, "ready", status.draining ? "shutting down" : "starting")),
      fact("Store", badge(status.store_writable, "writable", "not writable")),
      fact(
          "Rules",
          badge(
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
      fact("Data directory", h("code", {}, status.data_directory)));
}

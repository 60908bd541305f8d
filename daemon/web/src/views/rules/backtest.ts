// What edited rules would have found in a stored run: an editor of the loaded rule files, and what
// the daemon says of them. Nothing here changes the rules in force.
import {change, here, url} from "../../base/address";
import {Alert, ApiError, BacktestResult, get, post, refusal, Rule, RuleFile, Run} from "../../base/api";
import {alertState, place, whole} from "../../base/format";
import {specText} from "../../base/series";
import {plain, select, severityBadge} from "../../parts/controls";
import {button, cell, h, link, name, notice, replace, table} from "../../parts/dom";

const OWN = "own.yaml";
const OWN_TEXT = `groups:
  - name: own
    rules:
      - alert: loss_high
        indicator: train.loss
        threshold: {above: 4}
        labels: {severity: warning}
`;
// While somebody else's backtest runs: none takes longer than 10 s.
const BUSY_RETRY_MS = 1_000;
const BUSY_RETRIES = 12;
const AROUND_STEPS = 100;
const TITLES = ["Rule", "Severity", "First", "Where", "Times", "In fact", "Says"];

/** The last part of a file's path. */
const shortName = (file: string): string => file.slice(file.lastIndexOf("/") + 1);

async function judge(run: string, files: RuleFile[]): Promise<BacktestResult> {
  for (let tries = 0;; ++tries) {
    try {
      return await post<BacktestResult>("rules/backtest", {run, files});
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 429 || tries === BUSY_RETRIES)
        throw error;
      await new Promise((resolve) => setTimeout(resolve, BUSY_RETRY_MS));
    }
  }
}

export class BacktestForm {
  readonly root: HTMLElement;
  private readonly edited = new Map<string, string>();
  private loaded: RuleFile[] = [];
  private readonly editor: HTMLTextAreaElement = h("textarea", {
    rows: 18,
    spellcheck: "false",
    autocapitalize: "off",
    wrap: "off",
    class: "editor",
    "aria-describedby": "rule-errors",
    input: () => this.edited.set(this.file, this.editor.value)
  });
  private readonly run = select("In run", (value) => change({run: value}));
  private readonly files = select("File", (value) => this.open(value));
  private readonly together = h("input", {type: "checkbox", checked: true});
  private readonly errors =
      h("div", {id: "rule-errors", class: "outcome bad", role: "alert", "aria-live": "assertive"});
  private readonly result = h("div", {});
  private readonly go = button("Judge", {class: "primary", click: () => void this.judge()});
  private file = "";
  private judging = false;

  constructor() {
    this.root =
        h("section", {class: "card backtest"}, h("h2", {}, "What would these have found?"),
          h("p", {class: "faint"},
            "Edit the rules as you like and let the daemon judge a stored run by them. What is in ",
            "force stays as it is; to keep an edit, change the file and reload the daemon."),
          h("div", {class: "toolbar"}, this.files.root, this.run.root,
            h("label", {class: "field inline"}, this.together,
              h("span", {}, "together with the other files")),
            this.go, button("Undo edits", {click: () => this.undo()})),
          h("label", {class: "field"}, h("span", {}, "Rules (YAML)"), this.editor), this.errors,
          this.result);
  }

  offer(loaded: RuleFile[], runs: Run[]): void {
    this.loaded = loaded;
    if (this.file === "")
      this.open(loaded[0]?.name ?? OWN);
    else
      this.choices();
    const asked = here().text("run");
    const chosen = runs.some((one) => one.name === asked) ? asked as string : runs[0]?.name ?? "";
    this.run.set(plain(runs.map((one) => one.name)), chosen);
    this.go.disabled = this.judging || runs.length === 0;
  }

  /** Shows a rule in its file. */
  edit(rule: Rule): void {
    this.open(rule.file);
    this.select(rule.line);
    this.root.scrollIntoView({block: "start"});
  }

  private textOf(file: string): string {
    const loaded = this.loaded.find((one) => one.name === file);
    return this.edited.get(file) ?? loaded?.text ?? OWN_TEXT;
  }

  private choices(): void {
    const options = this.loaded.map(({name}): [string, string] => [name, shortName(name)]);
    this.files.set([...options, [OWN, "a new file"]], this.file);
  }

  private open(file: string): void {
    this.file = file;
    this.choices();
    this.editor.value = this.textOf(file);
  }

  private undo(): void {
    this.edited.delete(this.file);
    this.open(this.file);
    this.say([]);
    replace(this.result);
  }

  private select(line: number): void {
    const lines = this.editor.value.split("\n");
    const begin = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    this.editor.focus({preventScroll: true});
    this.editor.setSelectionRange(begin, begin + (lines[line - 1] ?? "").length);
    const height = this.editor.scrollHeight / Math.max(lines.length, 1);
    this.editor.scrollTop = Math.max((line - 4) * height, 0);
  }

  private chosen(): RuleFile[] {
    const shown = {name: this.file, text: this.editor.value};
    if (!this.together.checked) return [shown];
    const known = this.loaded.some((one) => one.name === this.file);
    const all = this.loaded.map((one) => ({name: one.name, text: this.textOf(one.name)}));
    return known ? all : [...all, shown];
  }

  private async judge(): Promise<void> {
    const run = this.run.value();
    this.judging = this.go.disabled = true;
    this.say([]);
    replace(this.result, notice("wait", "The daemon judges the run …"));
    try {
      const began = performance.now();
      const [found, before] = await Promise.all(
          [judge(run, this.chosen()), get<{alerts: Alert[]}>("alerts", {run, limit: 10_000})]);
      this.show(run, found, before.alerts, (performance.now() - began) / 1000);
    } catch (error) {
      replace(this.result);
      this.say((error instanceof ApiError && error.status === 400 ? error.message : refusal(error))
                   .split("\n"));
    } finally {
      this.judging = this.go.disabled = false;
    }
  }

  /** One line each; those of a place in a file lead there. */
  private say(lines: string[]): void {
    replace(this.errors, ...lines.map((line) => {
      const found = /^(.*):(\d+):(\d+): (.*)$/s.exec(line);
      if (found === null) return h("p", {}, line);
      const [file, at] = [found[1] as string, Number(found[2])];
      const open = () => {
        this.open(file);
        this.select(at);
      };
      return h(
          "p", {}, button(`${shortName(file)}, line ${at}`, {class: "tool", click: open}), " ",
          found[4] as string);
    }));
  }

  private show(run: string, found: BacktestResult, before: Alert[], seconds: number): void {
    const fired = new Map<string, Alert[]>();
    for (const alert of found.alerts)
      fired.set(alert.rule, [...fired.get(alert.rule) ?? [], alert]);
    const did = new Map<string, number>();
    for (const alert of before) did.set(alert.rule, (did.get(alert.rule) ?? 0) + 1);
    const rows = found.rules.filter((rule) => fired.has(rule.name) || did.has(rule.name));
    const row = (rule: Rule) => {
      const alerts = fired.get(rule.name) ?? [];
      const first = alerts[0];
      return h(
          "tr", {}, cell("Rule", h("bdi", {}, rule.name)),
          cell("Severity", severityBadge(first?.severity ?? rule.severity)),
          cell("First", first === undefined ? "never" : stepLink(run, first)),
          cell("Where", first !== undefined && place(first)), cell("Times", alerts.length),
          cell("In fact", did.get(rule.name) ?? 0), cell("Says", first?.summary ?? rule.summary));
    };
    replace(
        this.result, h("h3", {}, "In run ", name(run)),
        h("p", {class: "summary", role: "status"},
          `${fired.size} of ${found.rules.length} rules and signatures would have fired, ` +
              `${whole(found.alerts_total)} times in all, in ${whole(found.steps)} steps ` +
              `(judged in ${seconds.toFixed(1)} s).`),
        found.stopped !== "" &&
            notice(
                "error", `Judged up to step ${whole(found.last_step)} only: ${found.stopped}.`,
                `${whole(found.steps)} of ${whole(found.steps_total)} steps. For the rest: `,
                h("code", {}, "foreshock rules backtest"), " in a terminal."),
        ...found.notes.map((note) => h("p", {class: "faint"}, `Note: ${note}.`)),
        rows.length > 0 && table("found", TITLES, rows.map(row)),
        h("p", {class: "faint"},
          "“In fact”: how often a rule of that name has fired in this run while the daemon ",
          "watched it, by the rules that were in force then."));
  }
}

/** To the plot of what the alert is about, around where it began. */
function stepLink(run: string, alert: Alert): HTMLElement {
  const at = Number(alert.firing_step ?? alert.pending_step);
  const layer = alert.layers.length === 1 ? alert.layers[0] : undefined;
  const text = `step ${whole(at)}${
      alert.state === "ALERT_STATE_FIRING" ? "" : `, ${alertState(alert.state)}`}`;
  return link(
      url("run", {
        run,
        first: Math.max(at - AROUND_STEPS, 0),
        last: at + AROUND_STEPS,
        plot: alert.indicator === "" ? null : specText({indicator: alert.indicator, layer})
      }),
      {}, text);
}

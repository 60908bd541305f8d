// All runs: which live, how far they are, what fires, how the loss goes.
import {change, here} from "../../base/address";
import {get, Run} from "../../base/api";
import {Memo} from "../../base/memo";
import {isLive} from "../../base/steps";
import {button, h, replace} from "../../parts/dom";
import type {Shared, View} from "../../parts/live";
import {noneNamedSo, noneYet, runTable} from "./draw";
import {Extras} from "./fetch";
import {namedLike} from "./state";

const SHOWN_FIRST = 50;

export class RunsView implements View {
  readonly title = "Runs";
  private readonly filter = h("input", {
    type: "search",
    placeholder: "Filter by name",
    "aria-label": "Filter by name",
    value: here().text("name") ?? "",
    input:
        () => {
          change({name: this.filter.value});
          this.draw();
        }
  });
  private readonly body = h("div", {});
  readonly root =
      h("div", {}, h("div", {class: "title-row"}, h("h1", {}, "Runs"), this.filter), this.body);
  private readonly memo = new Memo();
  private readonly extras = new Extras();
  private runs: Run[] = [];
  private shownMost = SHOWN_FIRST;

  constructor(private readonly shared: Shared) {}

  async refresh(signal: AbortSignal): Promise<void> {
    const [{runs}] = await Promise.all([get<{runs: Run[]}>("runs", {}, signal), this.shared.fresh]);
    this.runs = runs;
    this.draw();
    await Promise.all(this.rows().map((run) => this.extras.load(run, signal)));
    this.draw();
  }

  live(): boolean {
    return this.runs.some(isLive);
  }

  readdress(): void {
    this.filter.value = here().text("name") ?? "";
    this.draw();
  }

  private rows(): Run[] {
    return namedLike(this.runs, this.filter.value).slice(0, this.shownMost);
  }

  private draw(): void {
    const rows = this.rows();
    const found = namedLike(this.runs, this.filter.value).length;
    const {firing} = this.shared;
    const at = rows.map((run) => this.extras.of(run)?.at);
    if (!this.memo.changed(this.runs.length, found, rows, firing, at)) return;
    if (this.runs.length === 0) return replace(this.body, noneYet());
    if (found === 0) return replace(this.body, noneNamedSo(() => this.showAllNames()));
    const showAll = () => {
      this.shownMost = Infinity;
      this.shared.again();
    };
    replace(
        this.body, runTable(rows, (run) => this.extras.of(run), firing),
        found > rows.length && button(`Show all ${found} runs`, {click: showAll}));
  }

  private showAllNames(): void {
    this.filter.value = "";
    change({name: null});
    this.draw();
  }
}

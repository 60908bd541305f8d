// A run as several views look at it: found anew in each round, with its alerts and its series.
import {Alert, get, Run, Series} from "./api";
import {findRun} from "./controls";
import {replace} from "./dom";
import {ALERTS_MOST, type Shared} from "./live";
import {listIndicators} from "./series";

export class WatchedRun {
  run: Run|null = null;
  alerts: Alert[] = [];
  series = new Map<string, Series[]>();  // by indicator
  private seriesAt = "";

  constructor(
      private readonly name: string|null, private readonly root: HTMLElement,
      private readonly shared: Shared) {}

  /** The run, when all is known of it, `more` too; null: there is none, and `root` says so. */
  async look(signal: AbortSignal, more?: (run: Run) => Promise<void>): Promise<Run|null> {
    const found = await findRun(this.name, signal);
    if (found instanceof HTMLElement) {
      replace(this.root, found);
      return null;
    }
    const [judged, listed] = await Promise.all([
      get<{alerts: Alert[]}>("alerts", {run: found.name, limit: ALERTS_MOST}, signal),
      found.series === this.seriesAt ? this.series : listIndicators(found.name, signal),
      this.shared.fresh, more?.(found)
    ]);
    [this.run, this.alerts, this.series, this.seriesAt] =
        [found, judged.alerts, listed, found.series];
    return found;
  }
}

// The plots of a view: one for each spec that is shown, kept while it stays shown.
import {Memo} from "../base/memo";
import type {Steps} from "../base/steps";
import {Spec, specText} from "../base/series";
import {dark} from "./palette";
import {Around, Plot} from "./plot";

export class PlotSet {
  private readonly plots = new Map<string, Plot>();
  private readonly memo = new Memo();

  /** `make` gives the plot of a spec that was not shown before. */
  constructor(private readonly make: (spec: Spec) => Plot) {}

  /** The plots of `specs`, in order; all others are closed. */
  show(specs: Spec[]): HTMLElement[] {
    const keys = specs.map(specText);
    for (const [key, plot] of this.plots) {
      if (keys.includes(key)) continue;
      plot.close();
      this.plots.delete(key);
    }
    return specs.map((spec, i) => {
      const key = keys[i] as string;
      const plot = this.plots.get(key) ?? this.make(spec);
      this.plots.set(key, plot);
      return plot.root;
    });
  }

  /**
   * Loads what is shown, where `data` has changed. `at` changes when the run may have more series;
   * `around` says what else is in the plot of a spec.
   */
  load(
      data: unknown[], at: string, range: Steps, around: (spec: Spec) => Around,
      signal?: AbortSignal): Promise<void> {
    const shown = [...this.plots];
    const widths = shown.map(([, plot]) => plot.root.clientWidth);
    return this.memo.run(
        [shown.map(([key]) => key), widths, at, range, dark(), ...data], async () => {
          await Promise.all(
              shown.map(([, plot]) => plot.load(at, range, around(plot.spec), signal)));
        });
  }

  close(): void {
    for (const plot of this.plots.values()) plot.close();
    this.plots.clear();
  }
}

/** Puts elements into a box, unless they are there already. */
export function arrange(box: Element, elements: HTMLElement[]): void {
  if (elements.length !== box.children.length || elements.some((one, i) => box.children[i] !== one))
    box.replaceChildren(...elements);
}

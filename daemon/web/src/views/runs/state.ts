// Which runs the view Runs shows. Pure.
import type {Alert, Run} from "../../base/api";

export function namedLike(runs: Run[], text: string): Run[] {
  const wanted = text.toLowerCase();
  return runs.filter((run) => run.name.toLowerCase().includes(wanted));
}

/** How many alerts of a run fire, by severity; those that ask for nothing are left out. */
export function firingOf(run: Run, firing: Alert[]): {severity: string; count: number}[] {
  return ["critical", "warning"]
      .map((severity) => ({
             severity,
             count: firing.filter((one) => one.run === run.name && one.severity === severity).length
           }))
      .filter(({count}) => count > 0);
}

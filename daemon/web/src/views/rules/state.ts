// The rules in force as the view Rules shows them: filtered, in groups, with counts. Pure.
import type {Alert, Rule} from "../../base/api";

export function matching(rules: Rule[], text: string): Rule[] {
  const wanted = text.toLowerCase();
  return rules.filter(
      ({name, indicator, group, severity}) =>
          `${name} ${indicator} ${group} ${severity}`.toLowerCase().includes(wanted));
}

/** By group and file, in the order in which they are loaded. */
export function grouped(rules: Rule[]): [string, Rule[]][] {
  const groups = new Map<string, Rule[]>();
  for (const rule of rules) {
    const key = rule.group === "" ? rule.file : `${rule.group} · ${rule.file}`;
    const group = groups.get(key);
    if (group === undefined)
      groups.set(key, [rule]);
    else
      group.push(rule);
  }
  return [...groups];
}

/** How many alerts of a rule fire and how many are over, by the rule's name. */
export class Counts {
  private readonly counts = new Map < string, {
    firing: number;
    over: number
  }
  > ();

  constructor(alerts: Alert[]) {
    for (const {rule, state} of alerts) {
      const {firing, over} = this.of(rule);
      const fires = state === "ALERT_STATE_FIRING";
      this.counts.set(rule, {firing: firing + (fires ? 1 : 0), over: over + (fires ? 0 : 1)});
    }
  }

  of(rule: string): {firing: number; over: number} {
    return this.counts.get(rule) ?? {firing: 0, over: 0};
  }
}

/** What a rule looks at, in words where that is no indicator. */
export function judges(rule: Rule): string {
  if (rule.indicator !== "") return rule.indicator;
  return rule.group === "signatures" ? "several rules together" : "the run itself";
}

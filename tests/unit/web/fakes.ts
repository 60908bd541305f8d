// What the page's modules ask of a browser and of a daemon, as far as tests need it.
//
//   const daemon = new FakeDaemon({"api/v1/runs": () => ({runs: [run("a")]})});
//   await loadAll(signal);
//   daemon.asked  // ["api/v1/alerts", "api/v1/runs"]
import type {Alert, Attempt, Bucket, Result, Run, Series, Step} from '../../../daemon/web/src/base/api';
import {Address} from '../../../daemon/web/src/base/address';
import type {Curve} from '../../../daemon/web/src/base/series';

export const signal = new AbortController().signal;
export const at = (search: string) => new Address(search);

type Answer = (query: URLSearchParams) => unknown;

/** Answers what the page asks for; other paths and `null` answers get 404. */
export class FakeDaemon {
  readonly asked: string[] = [];

  constructor(answers: {[path: string]: Answer}) {
    Object.assign(globalThis, {location: {pathname: '/run', search: ''}});
    globalThis.fetch = async (input) => {
      const url = new URL(String(input), 'http://daemon');
      this.asked.push(url.pathname.slice(1) + url.search);
      const body = answers[url.pathname.slice(1)]?.(url.searchParams) ?? null;
      const status = body === null ? 404 : 200;
      const text = JSON.stringify(body ?? {code: 'NOT_FOUND', message: `no ${url.pathname}`});
      return {ok: status === 200, status, text: async () => text} as Response;
    };
  }
}

/** Colours are their names: themed("card") is "card". */
export function fakeTheme(): void {
  Object.assign(globalThis, {
    document: {documentElement: null},
    getComputedStyle: () => ({getPropertyValue: (name: string) => name.replace('--', '')}),
    matchMedia: () => ({matches: false})
  });
}

export function attempt(number: number, first: number, last: number): Attempt {
  return {
    number,
    launch_id: `${number}`,
    first_step: String(first),
    last_step: String(last),
    started_unix_ns: '0',
    world_size: 2,
    ranks_connected: 2,
    state: 'ATTEMPT_STATE_LIVE'
  };
}

export function run(name: string, more: Partial<Run> = {}): Run {
  return {
    name,
    state: 'RUN_STATE_LIVE',
    attempts: [attempt(1, 0, 99)],
    last_step: '99',
    series: '3',
    alerts_firing: 0,
    labels: {},
    pinned: false,
    ...more
  };
}

export function series(indicator: string, more: Partial<Series> = {}): Series {
  return {run: 'a', indicator, unit: 'UNIT_NONE', unit_id: '0', unit_name: '', ...more};
}

/** A head of a layer. */
export function head(indicator: string, layer: number, unit: number): Series {
  return series(indicator, {layer, unit: 'UNIT_HEAD', unit_id: String(unit)});
}

export function alert(rule: string, more: Partial<Alert> = {}): Alert {
  return {
    id: rule,
    run: 'a',
    attempt: 1,
    rule,
    state: 'ALERT_STATE_FIRING',
    severity: 'critical',
    fault: '',
    indicator: 'train.loss',
    layers: [],
    all_layers: false,
    unit_name: '',
    value: 2,
    pending_step: '50',
    checkpoint: '',
    summary: '',
    description: '',
    runbook: '',
    labels: {},
    evidence: [],
    silenced_by: [],
    ...more
  };
}

export function points(of: Series, values: [step: number, value: number][]): Result {
  return {
    series: of,
    points: values.map(([step, value]) => ({step: String(step), value, attempt: 1, flags: []})),
    buckets: [],
    bucket_steps: '1',
    truncated: false
  };
}

export function bucket(
    first: number, last: number, mean: number, more: Partial<Bucket> = {}): Bucket {
  return {
    first_step: String(first),
    count: String(last - first + 1),
    min: mean,
    mean,
    max: mean,
    last: mean,
    last_step: String(last),
    attempt: 1,
    flags: [],
    ...more
  };
}

export function buckets(of: Series, made: Bucket[], steps = 10): Result {
  return {series: of, points: [], buckets: made, bucket_steps: String(steps), truncated: false};
}

export function step(number: number, seconds: number): Step {
  return {
    step: String(number),
    attempt: 1,
    time_unix_ns: String(seconds * 1e9),
    tokens: '0',
    ranks: 1,
    skipped: false,
    partial: false
  };
}

/** One value for each bucket, which begins at `first[i]` and ends before the next. */
export function curve(first: number[], last: number[], mean: number[]): Curve {
  return {
    series: series('x'),
    label: '',
    bucketSteps: 1,
    first,
    last,
    mean,
    min: mean,
    max: mean,
    attempt: mean.map(() => 1)
  };
}

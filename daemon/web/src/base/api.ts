// The JSON API (docs/api.md) as types. 64-bit integers come as strings; `number()` is exact up to
// 2^53.
import {base} from "./address";
import {token} from "./token";

export type Int64 = string;

/** How far the rules that judge series have judged a run. */
export interface Judged {
  rules: number;
  rules_judging: number;
  rows: Int64;
  from_step?: Int64;
}
export interface Attempt {
  number: number;
  launch_id: string;
  parent?: number;
  first_step?: Int64;
  last_step?: Int64;
  started_unix_ns: Int64;
  world_size: number;
  ranks_connected: number;
  state: string;
  judged?: Judged;
}
export interface ModelShape {
  layers: number;
  heads: number;
  kv_heads: number;
  head_dim: number;
  hidden_size: number;
  experts: number;
  top_k: number;
  attention: string;
  router: string;
  shared_experts: number;
}
export interface Run {
  name: string;
  state: string;
  model?: ModelShape;
  attempts: Attempt[];
  last_step?: Int64;
  series: Int64;
  alerts_firing: number;
  labels: {[name: string]: string};
  pinned: boolean;
}
export interface Series {
  run: string;
  indicator: string;
  layer?: number;
  unit: string;
  unit_id: Int64;
  unit_name: string;
}
export interface Point {
  step: Int64;
  value: number;
  attempt: number;
  flags: string[]
}
export interface Bucket {
  first_step: Int64;
  count: Int64;
  min: number;
  mean: number;
  max: number;
  last: number;
  last_step: Int64;
  attempt: number;
  flags: string[];
}
export interface Result {
  series: Series;
  points: Point[];
  buckets: Bucket[];
  bucket_steps: Int64;
  truncated: boolean;
  downsampled_before_step?: Int64;
}
export interface Step {
  step: Int64;
  attempt: number;
  time_unix_ns: Int64;
  tokens: Int64;
  ranks: number;
  skipped: boolean;
  partial: boolean;
}
export interface Evidence {
  rule: string;
  indicator: string;
  layers: number[];
  step?: Int64;
  supports: boolean;
  text: string;
}
export interface Alert {
  id: string;
  run: string;
  attempt: number;
  rule: string;
  state: string;
  severity: string;
  fault: string;
  indicator: string;
  layers: number[];
  all_layers: boolean;
  head?: number;
  rank?: number;
  unit_name: string;
  value: number;
  baseline?: number;
  pending_step: Int64;
  firing_step?: Int64;
  resolved_step?: Int64;
  last_healthy_step?: Int64;
  checkpoint: string;
  summary: string;
  description: string;
  runbook: string;
  labels: {[name: string]: string};
  evidence: Evidence[];
  acknowledgement?: {by: string; why: string; time_unix_ns: Int64; severity: string};
  silenced_by: string[];
  first_value?: number;
  worst_step?: Int64;
}
export interface Silence {
  id: string;
  matchers: string[];
  starts_unix_ns: Int64;
  ends_unix_ns: Int64;
  by: string;
  why: string;
}
export interface RunEvent {
  attempt: number;
  event: {kind: string; step: Int64; name: string; detail: string};
  time_unix_ns: Int64;
}
export interface Indicator {
  id: string;
  unit: string;
  range: string;
  version: number;
  storage: string;
  help: string;
}
export interface Rule {
  group: string;
  name: string;
  indicator: string;
  severity: string;
  file: string;
  summary: string;
  line: number;
}
export interface RuleFile {
  name: string;
  text: string;
}
export interface BacktestResult {
  rules: Rule[];
  alerts: Alert[];
  alerts_total: Int64;
  steps: Int64;
  steps_total: Int64;
  last_step?: Int64;
  stopped: string;
  notes: string[];
}
export interface Band {
  rule: string;
  indicator: string;
  aggregate: "each"|"mean"|"min"|"max"|"p10";
  layer?: number;
  unit: string;
  unit_id: Int64;
  unit_name: string;
  by_tokens: boolean;
  points: {position: number; median: number; spread: number; low?: number; high?: number}[];
}
export interface Status {
  version: string;
  started_unix_ns: Int64;
  ready: boolean;
  draining: boolean;
  streams: number;
  runs: number;
  series: Int64;
  reports_committed: Int64;
  reports_duplicate: Int64;
  summaries_rejected: Int64;
  points_written: Int64;
  alerts_firing: number;
  rules_loaded: number;
  config_last_reload_successful: boolean;
  store_bytes: Int64;
  data_directory: string;
  store_writable: boolean;
  open_steps: number;
  resident_bytes: Int64;
}

export type Parameters = {
  [name: string]: string|number|readonly(string|number)[]|undefined
};

/** The daemon answered, and the answer is no. */
export class ApiError extends Error {
  constructor(readonly status: number, readonly code: string, message: string) {
    super(message);
  }
}
/** No answer came: the daemon is away, or something between it and the browser. */
export class Unreachable extends Error {}

/** Why an action was not taken, for whoever wanted it. */
export function refusal(error: unknown): string {
  return error instanceof ApiError ? `Refused: ${error.message}` :
                                     "The daemon did not answer; nothing was changed. Try again.";
}

const ANSWER_WITHIN_MS = 20_000;

export function target(path: string, parameters: Parameters): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    if (value === undefined) continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(key, String(one));
  }
  const text = query.toString();
  return `${base()}api/v1/${path}${text === "" ? "" : `?${text}`}`;
}

async function ask<T>(url: string, options: RequestInit, signal?: AbortSignal): Promise<T> {
  const controller = new AbortController();
  const abort = () => controller.abort();
  signal?.addEventListener("abort", abort);
  const timer = setTimeout(abort, ANSWER_WITHIN_MS);
  try {
    const headers = new Headers(options.headers);
    if (token() !== "") headers.set("Authorization", `Bearer ${token()}`);
    const response = await fetch(url, {...options, headers, signal: controller.signal});
    const text = await response.text();
    let json: any = null;
    try {
      json = JSON.parse(text);
    } catch {
      if (response.ok) throw new Unreachable("the answer is no JSON");
    }
    if (response.ok) return json as T;
    // What a proxy says in the daemon's place, or the daemon when it is too busy to answer.
    if (json === null || response.status === 503) throw new Unreachable(`HTTP ${response.status}`);
    throw new ApiError(response.status, String(json.code), String(json.message));
  } catch (error) {
    if (error instanceof ApiError || error instanceof Unreachable || signal?.aborted) throw error;
    throw new Unreachable(error instanceof Error ? error.message : String(error));
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
}

export function get<T>(
    path: string, parameters: Parameters = {}, signal?: AbortSignal): Promise<T> {
  return ask<T>(target(path, parameters), {}, signal);
}

export function post<T>(path: string, body: unknown): Promise<T> {
  return ask<T>(target(path, {}), {
    method: "POST",
    headers: {"Content-Type": "application/json"},
    body: JSON.stringify(body),
  });
}

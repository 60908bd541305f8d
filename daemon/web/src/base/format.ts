// Numbers, times and places in words.
import type {Alert, Int64, Series} from "./api";

const GROUPED = new Intl.NumberFormat("en", {useGrouping: true});

/** "1 234 567": with thin spaces, which no language reads as a decimal mark. */
export function whole(value: Int64|number|undefined): string {
  return value === undefined ? "–" : GROUPED.format(Number(value)).replace(/,/g, "\u202f");
}

/** Four significant digits. */
export function short(value: number|undefined|null): string {
  if (value === undefined || value === null || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(3).replace("e+", "e");
  return String(Number(value.toPrecision(4)));
}

/** All digits of what is stored, for reading off a point. */
export function exact(value: number): string {
  return Number.isFinite(value) ? String(Number(value.toPrecision(9))) : "–";
}

/** "1.2M": for axes. */
export function compact(value: number): string {
  const size = Math.abs(value);
  for (const [unit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]] as const) {
    if (size >= unit * 10 || (size >= unit && unit > 1e3)) {
      return `${Number((value / unit).toPrecision(3))}${letter}`;
    }
  }
  return size !== 0 && size < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(4)));
}

export function bytes(value: Int64|number): string {
  let size = Number(value);
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (size < 1024) return `${Number(size.toPrecision(3))} ${unit}`;
    size /= 1024;
  }
  return `${Number(size.toPrecision(3))} TiB`;
}

export function duration(seconds: number): string {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 86_400 * 2) return `${Number((seconds / 3600).toPrecision(2))} h`;
  return `${Math.round(seconds / 86_400)} days`;
}

/** In the viewer's own zone. "" for 0, which stands for unknown. */
export function time(unixNs: Int64|undefined): string {
  const ms = Number(unixNs ?? 0) / 1e6;
  if (ms <= 0) return "";
  return new Date(ms).toLocaleString(undefined, {
    year: "numeric",
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    timeZoneName: "short"
  });
}

/** "RUN_STATE_LIVE" → "live". */
export function word(enumName: string, prefix: string): string {
  return enumName.replace(prefix, "").toLowerCase().replace(/_/g, " ");
}
export const runState = (state: string): string => word(state, "RUN_STATE_");
export const alertState = (state: string): string => word(state, "ALERT_STATE_");
export const unitName = (unit: string): string => word(unit, "UNIT_");

function list(values: number[], most = 8): string {
  const more = values.length - most;
  return values.slice(0, most).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** "layers 1, 2, head 3"; "whole run" where the alert names no place. */
export function place(
    alert:
        {layers: number[]; all_layers?: boolean; head?: number; rank?: number; unit_name?: string}):
    string {
  const parts: string[] = [];
  if (alert.all_layers) {
    parts.push("all layers");
  } else if (alert.layers.length > 0) {
    parts.push(`${alert.layers.length === 1 ? "layer" : "layers"} ${list(alert.layers)}`);
  }
  if (alert.head !== undefined) parts.push(`head ${alert.head}`);
  if (alert.rank !== undefined) parts.push(`rank ${alert.rank}`);
  if (alert.unit_name) parts.push(`'${alert.unit_name}'`);
  return parts.length > 0 ? parts.join(", ") : "whole run";
}

/** "−10.1 %"; "" where there is no baseline to differ from. */
export function difference(alert: Alert): string {
  if (alert.baseline === undefined || alert.baseline === 0) return "";
  const change = 100 * (alert.value - alert.baseline) / Math.abs(alert.baseline);
  if (!Number.isFinite(change)) return "";
  return `${change > 0 ? "+" : change < 0 ? "−" : ""}${Math.abs(change).toFixed(1)} %`;
}

/** What to call the alert: its probable fault where there is one, else its rule. */
export function headline(alert: Alert): string {
  return alert.fault !== "" && alert.fault !== "unknown" ? alert.fault : alert.rule;
}

/** "layer 1, head 3"; "" for the one series of an indicator. */
export function seriesLabel(series: Series): string {
  const parts: string[] = [];
  if (series.layer !== undefined) parts.push(`layer ${series.layer}`);
  if (series.unit_name !== "") {
    parts.push(series.unit_name);
  } else if (series.unit !== "UNIT_NONE") {
    parts.push(`${unitName(series.unit)} ${series.unit_id}`);
  }
  return parts.join(", ");
}

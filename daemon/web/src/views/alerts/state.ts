// Which alerts the view Alerts shows. Pure.
import type {Address} from "../../base/address";
import type {Alert} from "../../base/api";

export interface Wanted {
  info: boolean;          // single indicators too
  severity: string|null;  // null: all
}

export function wantedBy(here: Address): Wanted {
  return {info: here.text("info") === "1", severity: here.text("severity")};
}

export interface Parts {
  firing: Alert[];
  pending: Alert[];
  over: Alert[];
  shown: number;
  hidden: number;
}

export function partsOf(alerts: Alert[], {info, severity}: Wanted): Parts {
  const shown = alerts.filter(
      (alert) => (alert.severity !== "info" || info) &&
          (severity === null || alert.severity === severity));
  const of = (state: string) => shown.filter((alert) => alert.state === `ALERT_STATE_${state}`);
  return {
    firing: of("FIRING"),
    pending: of("PENDING"),
    over: of("RESOLVED"),
    shown: shown.length,
    hidden: alerts.length - shown.length
  };
}

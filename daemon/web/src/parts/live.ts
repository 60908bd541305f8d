// Asks again and again: the view that is open, and what stands above every view. Slower when
// nothing moves, not at all while nobody looks or a token is asked for, and ever more rarely while
// the daemon does not answer.
import {Alert, ApiError, get, Status, Unreachable} from "../base/api";

export interface View {
  title: string;
  root: HTMLElement;
  /** Asks for what the view shows and draws it. */
  refresh(signal: AbortSignal): Promise<void>;
  /** Whether something moves, so that looking often is worth it. */
  live(): boolean;
  /** The address changed within the view (the browser's back button). */
  readdress?(): void;
  close?(): void;
}

/** What every view may know. */
export interface Shared {
  firing: Alert[];  // the worst first, at most FIRING_MOST
  status: Status|null;
  /** Resolves when `firing` and `status` are those of this round. */
  fresh: Promise<void>;
  /** Asks again at once. */
  again(): void;
}

export interface Banner {
  lost(why: string, retrySeconds: number): void;
  found(): void;
  problem(message: string|null): void;
  /** The daemon tells nothing to who shows this token, or none. */
  locked(why: string): void;
  shared(): void;
  restarted(): void;
}

export const FIRING_MOST = 500;
const LIVE_MS = 2_000;
const QUIET_MS = 5_000;
const RETRY_FIRST_MS = 1_000;
const RETRY_MOST_MS = 30_000;

export class Loop {
  readonly shared: Shared = {
    firing: [],
    status: null,
    fresh: Promise.resolve(),
    again: () => this.now(),
  };
  private view: View|null = null;
  private controller = new AbortController();
  private timer = 0;
  private failures = 0;

  constructor(private readonly banner: Banner) {
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.now();
    });
    addEventListener("online", () => this.now());
  }

  show(view: View): void {
    this.view?.close?.();
    this.view = view;
    this.now();
  }

  now(): void {
    this.controller.abort();
    this.controller = new AbortController();
    clearTimeout(this.timer);
    void this.round(this.controller.signal);
  }

  private async round(signal: AbortSignal): Promise<void> {
    let wait = LIVE_MS;
    const view = this.view;
    try {
      this.shared.fresh = this.header(signal);
      const outcomes = await Promise.allSettled([this.shared.fresh, view?.refresh(signal)]);
      if (signal.aborted) return;
      const bad =
          outcomes.find((one) => one.status === "rejected") as PromiseRejectedResult | undefined;
      if (bad !== undefined) throw bad.reason;
      this.failures = 0;
      this.banner.found();
      this.banner.problem(null);
      wait = view?.live() ? LIVE_MS : QUIET_MS;
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError) {
        this.failures = 0;
        // Rounds only read: 403 is a token without the role for that.
        if (error.status === 401 || error.status === 403) {
          this.banner.locked(error.message);
          return;
        }
        this.banner.found();
        this.banner.problem(error.message);
        wait = QUIET_MS;
      } else {
        // A fault of this page is shown too; it is no reason to stop asking.
        wait = Math.min(RETRY_FIRST_MS * 2 ** this.failures++, RETRY_MOST_MS);
        if (error instanceof Unreachable) {
          this.banner.lost(error.message, wait / 1000);
        } else {
          this.banner.problem(`This page failed: ${String(error)}`);
        }
      }
    }
    this.timer = window.setTimeout(() => {
      if (document.hidden) return;  // goes on when someone looks again
      void this.round(signal);
    }, wait);
  }

  private async header(signal: AbortSignal): Promise<void> {
    const [status, firing] = await Promise.all([
      get<Status>("status", {}, signal),
      get<{alerts: Alert[]}>("alerts", {state: "firing", limit: FIRING_MOST}, signal)
    ]);
    const before = this.shared.status;
    this.shared.status = status;
    this.shared.firing = firing.alerts;
    this.banner.shared();
    if (before !== null && before.started_unix_ns !== status.started_unix_ns)
      this.banner.restarted();
  }
}

// The page around the views: navigation, what fires now, whether the daemon answers, addresses.
import {here, url, view} from "./base/address";
import type {Alert} from "./base/api";
import {headline, place, whole} from "./base/format";
import {Memo} from "./base/memo";
import {forgetCatalogue} from "./base/series";
import {forgetToken, token} from "./base/token";
import {page} from "./parts/controls";
import {button, h, link, notice, replace} from "./parts/dom";
import {Banner, FIRING_MOST, Loop, Shared, View} from "./parts/live";
import {TokenForm} from "./parts/token_form";
import {AlertView} from "./views/alert/view";
import {AlertsView} from "./views/alerts/view";
import {CompareView} from "./views/compare/view";
import {DaemonView} from "./views/daemon/view";
import {ATTENTION, ROUTER} from "./views/heat/pages";
import {HeatView} from "./views/heat/view";
import {RulesView} from "./views/rules/view";
import {RunView} from "./views/run/view";
import {RunsView} from "./views/runs/view";

const VIEWS: {[view: string]: (shared: Shared) => View} = {
  runs: (shared) => new RunsView(shared),
  run: (shared) => new RunView(shared),
  alerts: (shared) => new AlertsView(shared),
  alert: (shared) => new AlertView(shared),
  compare: (shared) => new CompareView(shared),
  attention: (shared) => new HeatView(ATTENTION, shared),
  router: (shared) => new HeatView(ROUTER, shared),
  rules: (shared) => new RulesView(shared),
  daemon: (shared) => new DaemonView(shared),
};
const NAVIGATION: [string, string][] = [
  ["runs", "Runs"], ["alerts", "Alerts"], ["compare", "Compare"], ["rules", "Rules"],
  ["daemon", "Daemon"]
];
// Parameters that make it another view; the others are within one.
const IDENTITY = ["run", "id"];

const main = h("main", {id: "main", tabindex: -1});
const nav = h("nav", {class: "main-nav", "aria-label": "Views"});
const pulse = h("span", {class: "pulse", role: "status"});
const forget = button("Forget token", {
  hidden: true,
  class: "tool",
  click: () => {
    forgetToken();
    location.reload();  // and with it everything that was shown
  }
});
const lost = h("div", {class: "banner lost", role: "alert", hidden: true});
const problem = h("div", {class: "banner problem", role: "alert", hidden: true});
const news = h("div", {class: "visually-hidden", "aria-live": "assertive"});
let current: View|null = null;
let shown = "";
let lostSince: Date|null = null;
let countdown = 0;
let version = "";
let outdated = "";
let known: Set<string>|null = null;
const navMemo = new Memo();
const tokenForm = new TokenForm(() => loop.now());

const banner: Banner = {
  lost(why, retrySeconds) {
    lostSince ??= new Date();
    clearInterval(countdown);
    let left = Math.round(retrySeconds);
    const text = h("span", {});
    const tell = () => {
      text.textContent =
          `The daemon does not answer since ${lostSince?.toLocaleTimeString()} (${why}). ` +
          `What is shown is from before. Trying again in ${left} s. `;
      left = Math.max(left - 1, 0);
    };
    tell();
    countdown = window.setInterval(tell, 1000);
    replace(lost, text, button("Try now", {click: () => loop.now()}));
    lost.hidden = false;
    pulse.textContent = "offline";
    pulse.className = "pulse bad";
  },
  found() {
    answered();
    if (tokenForm.root.isConnected) {
      tokenForm.root.replaceWith(main);
      main.focus({preventScroll: true});
      setTimeout(open);  // again, now that it has a width; when this round is over
    }
    forget.hidden = token() === "";
    pulse.textContent = `as of ${new Date().toLocaleTimeString()}`;
    pulse.className = "pulse";
    main.removeAttribute("aria-busy");
    title();
  },
  problem(message) {
    const text = message ?? outdated;
    problem.hidden = text === "";
    problem.textContent = text;
  },
  locked(why) {
    answered();
    main.replaceWith(tokenForm.root);
    tokenForm.ask(why);
    forget.hidden = true;
    banner.problem(null);
    pulse.textContent = "";
    loop.shared.firing = [];
    navigation([]);
    title();
  },
  shared() {
    const grave = loop.shared.firing.filter((alert) => alert.severity !== "info");
    announce(grave);
    navigation(grave);
    const now = loop.shared.status?.version ?? "";
    if (version !== "" && now !== version) {
      outdated = `The daemon is now version ${now}: reload this page to get its page too.`;
    }
    version ||= now;
  },
  restarted() {
    forgetCatalogue();
    open();
  },
};

const loop = new Loop(banner);

/** The daemon is there, whatever it said. */
function answered(): void {
  clearInterval(countdown);
  lostSince = null;
  lost.hidden = true;
}

function grave(): number {
  return loop.shared.firing.filter((alert) => alert.severity !== "info").length;
}

function title(): void {
  const count = grave();
  document.title = `${count > 0 ? `(${count}) ` : ""}${current?.title ?? ""} · Foreshock`;
}

/** Says aloud what has begun to fire since the page was opened. */
function announce(firing: Alert[]): void {
  const fresh = known === null ? [] : firing.filter((alert) => !known?.has(alert.id));
  known = new Set(firing.map((alert) => alert.id));
  if (fresh.length === 0) return;
  news.textContent = fresh.slice(0, 3)
                         .map(
                             (alert) => `New ${alert.severity} alert: ${headline(alert)} in run ${
                                            alert.run}, ${place(alert)}, ` +
                                 `since step ${whole(alert.pending_step)}.`)
                         .join(" ");
}

function navigation(firing: Alert[]): void {
  const here = VIEWS[view()] === undefined ? "runs" : view();
  const worst = firing.some((alert) => alert.severity === "critical") ? "critical" : "warning";
  const count = firing.length >= FIRING_MOST ? `${FIRING_MOST}+` : String(firing.length);
  if (!navMemo.changed(here, worst, count)) return;
  replace(
      nav,
      ...NAVIGATION.map(
          ([name, text]) => link(
              url(name), {"aria-current": here === name ? "page" : undefined}, text,
              name === "alerts" && firing.length > 0 &&
                  h("span", {class: `count ${worst}`, "aria-label": `${count} firing`}, count))));
}

function identity(): string {
  return JSON.stringify([view(), ...IDENTITY.map((name) => here().text(name))]);
}

/** Shows what the address says. */
function open(): void {
  shown = identity();
  const make = VIEWS[view()];
  if (make === undefined) {
    current = {
      title: "No such view",
      live: () => false,
      refresh: () => loop.shared.fresh,
      root: page(
          "No such view",
          notice(
              "error", "There is no view of this name.",
              "Perhaps the address is of an older version. Start from ",
              link(url("runs"), {}, "the runs"), "."))
    };
  } else {
    current = make(loop.shared);
  }
  banner.problem(null);
  main.replaceChildren(current.root);
  main.setAttribute("aria-busy", "true");  // until the first answers are drawn
  navMemo.changed(null);
  navigation(loop.shared.firing.filter((alert) => alert.severity !== "info"));
  title();
  loop.show(current);
}

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey ||
      event.shiftKey || event.altKey)
    return;
  const anchor = (event.target as Element).closest?.("a");
  if (!anchor || anchor.origin !== location.origin || anchor.download !== "" ||
      anchor.target !== "")
    return;
  if (anchor.hash !== "" && anchor.pathname === location.pathname) return;
  event.preventDefault();
  history.pushState(null, "", anchor.href);
  open();
  scrollTo(0, 0);
  main.focus({preventScroll: true});
});
addEventListener("popstate", () => {
  if (identity() === shown && current?.readdress !== undefined)
    current.readdress();
  else
    open();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => loop.now());
let resized = 0;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = window.setTimeout(() => loop.now(), 300);
});

document.body.replaceChildren(
    h("a", {href: "#main", class: "skip"}, "Skip to the content"),
    h("header", {class: "top"}, link(url("runs"), {class: "brand"}, "Foreshock"), nav, pulse,
      forget),
    lost, problem, news, main);
open();

// Taking an alert on, accepting its level, and silencing what is alike: forms below an alert.
import {Alert, post, refusal} from "../../base/api";
import {h, replace} from "../../parts/dom";

const REMEMBERED = "foreshock.by";
const HOUR_NS = 3_600_000_000_000;

function quoted(value: string): string {
  return `"${value.replace(/[\\"]/g, "\\$&")}"`;
}

function field(title: string, control: HTMLElement): HTMLElement {
  return h("label", {class: "field"}, h("span", {}, title), control);
}

function remembered(): string {
  try {
    return localStorage.getItem(REMEMBERED) ?? "";
  } catch {
    return "";  // a browser without storage
  }
}

/** The forms. `done` is called when one was sent, whether or not the daemon took it. */
export function alertActions(alert: Alert, done: () => void): HTMLElement {
  const outcome = h("output", {class: "outcome", role: "status"});
  const by =
      h("input", {required: true, maxlength: 200, autocomplete: "name", value: remembered()});
  const why = h("input", {maxlength: 800, placeholder: "optional"});
  const scope =
      h("select", {}, h("option", {value: "rule"}, "this rule in this run"),
        h("option", {value: "run"}, "everything of this run"),
        alert.fault !== "" && h("option", {value: "fault"}, "this fault in all runs"));
  const hours =
      h("select", {},
        ...[[1, "1 hour"], [4, "4 hours"], [24, "1 day"], [168, "1 week"]].map(
            ([value, text]) => h("option", {value: value as number}, text as string)));

  async function act(path: string, body: object, said: string): Promise<void> {
    if (!form.reportValidity()) return;
    try {
      localStorage.setItem(REMEMBERED, by.value);
    } catch { /* a browser without storage */
    }
    form.setAttribute("aria-busy", "true");
    try {
      await post(path, {...body, by: by.value, why: why.value});
      outcome.className = "outcome good";
      outcome.textContent = said;
    } catch (error) {
      outcome.className = "outcome bad";
      outcome.textContent = refusal(error);
    } finally {
      form.removeAttribute("aria-busy");
      done();
    }
  }

  function matchers(): string[] {
    if (scope.value === "fault") return [`fault=${quoted(alert.fault)}`];
    const run = `run=${quoted(alert.run)}`;
    return scope.value === "run" ? [run] : [run, `rule=${quoted(alert.rule)}`];
  }

  const form = h(
      "form", {class: "toolbar", submit: (event: Event) => event.preventDefault()},
      field("Your name", by), field("Why", why),
      h("button", {
        type: "button",
        class: "primary",
        "data-key": "acknowledge",
        click: () =>
            act("alerts/acknowledge", {id: alert.id},
                "Taken on. Nobody is told again unless it becomes graver.")
      },
        "Acknowledge"),
      h("button", {
        type: "button",
        "data-key": "accept",
        title: "What it shows is the new normal: it ends, and is judged against this level",
        click: () => act("alerts/accept", {id: alert.id},
                         "Accepted. It ends at the next step, and this level is the new normal.")
      },
        "Accept the level"),
      h("span", {class: "apart"}), field("Silence", scope), field("for", hours),
      h("button", {
        type: "button",
        "data-key": "silence",
        click: () => act(
            "silences", {matchers: matchers(), duration_ns: String(Number(hours.value) * HOUR_NS)},
            "Silenced. It is still judged and shown.")
      },
        "Silence"));
  const root = h("section", {class: "card actions", "aria-label": "Acknowledge, accept or silence"});
  replace(root, form, outcome);
  return root;
}

// Asks for a token, in the place of the view, while the daemon answers nothing without a good one.
import {forgetToken, keepToken, token} from "../base/token";

import {h} from "./dom";

// What a header can carry, and what `foreshock token new` draws from.
const TOKEN = /^[!-~]+$/;

export class TokenForm {
  // Without a name it is never part of what a form sends by itself.
  private readonly input =
      h("input", {type: "password", required: true, autocomplete: "off", spellcheck: "false"});
  private readonly why = h("p", {class: "outcome bad", role: "alert"});
  readonly root = h(
      "main", {class: "gate", id: "main", tabindex: -1}, h("h1", {}, "This daemon wants a token"),
      h("form", {class: "card", submit: (event: Event) => this.submit(event)}, this.why,
        h("div", {class: "toolbar"},
          h("label", {class: "field grow"}, h("span", {}, "Token"), this.input),
          h("button", {type: "submit", class: "primary"}, "Use it")),
        h("p", {class: "faint"}, "It begins with ", h("code", {}, "fst_"),
          " and comes from whoever runs the daemon, who draws it with ",
          h("code", {}, "foreshock token new NAME --role read"), " (", h("code", {}, "operate"),
          " to acknowledge and silence alerts as well) and names it in the daemon's tokens file. ",
          "Only this tab keeps it, until it is closed.")));

  /** `tried` is called when there is a token to ask the daemon with. */
  constructor(private readonly tried: () => void) {}

  /** The daemon has refused what it was shown, which may be nothing, and said why. */
  ask(why: string): void {
    if (token() !== "") this.why.textContent = `Refused: ${why}`;
    forgetToken();
    this.input.focus();
  }

  private submit(event: Event): void {
    event.preventDefault();
    const text = this.input.value.trim();
    this.input.value = "";
    if (!TOKEN.test(text)) {
      this.why.textContent = "This is no token: they have no spaces, and ASCII letters only.";
      return;
    }
    this.why.textContent = "";
    keepToken(text);
    this.tried();
  }
}

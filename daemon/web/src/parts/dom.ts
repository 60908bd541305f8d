// Elements out of code. Text becomes text nodes and nothing else: no name from the network can be
// markup.

export type Child = Node|string|number|null|undefined|false;

interface Attributes {
  [name: string]: string|number|boolean|null|undefined|((event: any) => void);
}

/** h("a", {href: "/runs", class: "nav"}, "Runs"). A function is a listener: {click: f}. */
export function h<K extends keyof HTMLElementTagNameMap>(
    tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") {
      element.addEventListener(name, value);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  append(element, children);
  return element;
}

export function append(element: Element, children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Replaces the content and keeps the keyboard's focus on the element with the same data-key. */
export function replace(element: Element, ...children: Child[]): void {
  const active = document.activeElement;
  const key = active !== null && element.contains(active) ? active.getAttribute("data-key") : null;
  element.replaceChildren();
  append(element, children);
  if (key === null) return;
  const again = element.querySelector<HTMLElement>(`[data-key="${CSS.escape(key)}"]`);
  again?.focus({preventScroll: true});
}

/** A name somebody chose: kept apart from the text's direction around it, in full as its title. */
export function name(text: string, className = "name"): HTMLElement {
  return h("bdi", {class: className, title: text}, text);
}

export function link(
    href: string, attributes: Attributes, ...children: Child[]): HTMLAnchorElement {
  return h("a", {href, "data-key": href, ...attributes}, ...children);
}

export function button(
    text: string, attributes: Attributes, ...children: Child[]): HTMLButtonElement {
  return h("button", {type: "button", "data-key": text, ...attributes}, text, ...children);
}

/** What is there instead of content: what is the matter, and what to do. */
export function notice(kind: "empty"|"error"|"wait", title: string, ...what: Child[]): HTMLElement {
  return h(
      "div", {class: `notice ${kind}`, role: kind === "error" ? "alert" : "status"},
      h("strong", {}, title), what.length > 0 && h("div", {}, ...what));
}

/** What a view shows. Replaced only when `what` changes, so that the reader's place survives. */
export class Stage {
  readonly root = h("div", {});
  private shown = "";

  constructor(...first: Child[]) {
    append(this.root, first);
  }

  show(what: string, content: () => Child[]): void {
    if (what === this.shown) return;
    this.shown = what;
    replace(this.root, ...content());
  }
}

/** One entry of a description list: h("dl", {class: "facts"}, fact("Rules", "12 loaded")). */
export function fact(title: string, ...content: Child[]): HTMLElement {
  return h("div", {}, h("dt", {}, title), h("dd", {}, ...content));
}

/** A table with a heading for each column; on a phone each row becomes a card. */
export function table(kind: string, titles: string[], rows: HTMLElement[]): HTMLElement {
  return h(
      "table", {class: `stack ${kind}`.trim()},
      h("thead", {}, h("tr", {}, ...titles.map((title) => h("th", {scope: "col"}, title)))),
      h("tbody", {}, ...rows));
}

/** A cell under its column's title, which a phone shows in front of it. */
export function cell(title: string, ...content: Child[]): HTMLElement {
  return h("td", {"data-title": title}, ...content);
}

// Every view has an address: a path of one part, and what it shows as parameters. Paths are
// relative to where the page came from, so that a proxy may serve the page below a path of its own.
//
//   here().step("first")              // of /run?run=a&first=300: 300
//   url("run", {run: "a", first: 300})
//   change({first: null}, true)       // the browser's back button restores it

/** The parameters of an address. */
export class Address {
  private readonly query: URLSearchParams;
  constructor(search: string) {
    this.query = new URLSearchParams(search);
  }
  text(name: string): string|null {
    return this.query.get(name);
  }
  texts(name: string): string[] {
    return this.query.getAll(name);
  }
  /** Null where there is none, or no whole number. */
  step(name: string): number|null {
    const text = this.text(name);
    return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
  }
}

/** What the browser's address asks for now. */
export function here(): Address {
  return new Address(location.search);
}

export function base(): string {
  return location.pathname.slice(0, location.pathname.lastIndexOf("/") + 1);
}

export function view(): string {
  return location.pathname.slice(base().length) || "runs";
}

export type Values = {
  [name: string]: string|number|null|undefined|readonly string[]
};

function search(query: URLSearchParams, values: Values): string {
  for (const [name, value] of Object.entries(values)) {
    const [first, ...more] = Array.isArray(value) ? value : [value];
    if (first === null || first === undefined || first === "")
      query.delete(name);
    else
      query.set(name, String(first));
    for (const one of more) query.append(name, String(one));
  }
  const text = query.toString();
  return text === "" ? "" : `?${text}`;
}

export function url(view: string, values: Values = {}): string {
  return `${base()}${view}${search(new URLSearchParams(), values)}`;
}

/** This view with some parameters changed. `remember`: the browser's back button undoes it. */
export function change(values: Values, remember = false): void {
  const changed = location.pathname + search(new URLSearchParams(location.search), values);
  if (changed === location.pathname + location.search) return;
  if (remember) {
    history.pushState(null, "", changed);
  } else {
    history.replaceState(null, "", changed);
  }
}

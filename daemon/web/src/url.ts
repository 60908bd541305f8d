// Every view has an address: a path of one part and what it shows as parameters. Paths are relative
// to where the page came from, so that a proxy may put it below a path of its own.

export function base(): string {
  return location.pathname.slice(0, location.pathname.lastIndexOf("/") + 1);
}

export function view(): string {
  return location.pathname.slice(base().length) || "runs";
}

export function parameter(name: string): string|null {
  return new URLSearchParams(location.search).get(name);
}

export function parameters(name: string): string[] {
  return new URLSearchParams(location.search).getAll(name);
}

/** A step of the address, or null where there is none or nonsense. */
export function stepParameter(name: string): number|null {
  const text = parameter(name);
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

type Values = {
  [name: string]: string|number|null|undefined|readonly string[]
};

function search(query: URLSearchParams, values: Values): string {
  for (const [name, value] of Object.entries(values)) {
    query.delete(name);
    if (value === null || value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one));
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

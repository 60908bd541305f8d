// The token that the daemon is shown, where it wants one (SECURITY.md). It is kept for this tab
// only and goes with it; it is never part of an address.

const KEY = "foreshock.token";

let held = stored();

function stored(): string {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";  // a browser without storage
  }
}

/** Empty: none. */
export function token(): string {
  return held;
}

export function keepToken(text: string): void {
  held = text;
  try {
    sessionStorage.setItem(KEY, text);
  } catch { /* then it lasts until the page is loaded anew */
  }
}

export function forgetToken(): void {
  held = "";
  try {
    sessionStorage.removeItem(KEY);
  } catch { /* nothing was kept */
  }
}

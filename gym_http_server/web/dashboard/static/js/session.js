/** The token of this tab. It is kept by the browser until the tab is closed. */

const KEY = "token";

/** The token; empty if there is none. */
export function token() {
  return sessionStorage.getItem(KEY) ?? "";
}

/** Keep a token, or forget it. */
export function setToken(given) {
  if (given) sessionStorage.setItem(KEY, given);
  else sessionStorage.removeItem(KEY);
}

/** Take the token out of the address, where `serve --token auto` prints it. */
export function takeToken() {
  const found = /^#token=([!-~]+)$/.exec(location.hash);
  if (!found) return;
  try {
    setToken(decodeURIComponent(found[1]));
  } catch {
    // Somebody typed a % that encodes nothing.
    setToken(found[1]);
  }
  history.replaceState(null, "", location.pathname);
}

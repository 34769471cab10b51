/** The form for the token. */

import { h } from "./elements.js";

/**
 * Make the form.
 *
 * @param {boolean} wasWrong Whether the server has just refused a token.
 * @param {(token: string) => void} onToken
 */
export function view(wasWrong, onToken) {
  const input = h("input", { type: "password", autocomplete: "current-password", required: "" });
  const words = wasWrong ? "The server does not know this token." : "This server needs a token.";
  const form = h(
    "form",
    { class: "fields panel" },
    h("p", { role: "alert" }, words),
    // Password managers keep the token below this name.
    h("input", { autocomplete: "username", hidden: "", value: location.host }),
    h("label", {}, "Token", input),
    h("p", { class: "soft" }, "It is kept in this tab until you close it, and is sent to this server only."),
    h("button", { type: "submit", class: "primary" }, "Sign in"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (input.value.trim()) onToken(input.value.trim());
  });
  queueMicrotask(() => input.focus());
  return { element: h("div", { class: "view sign-in" }, h("h1", {}, "Sign in"), form), dispose() {} };
}

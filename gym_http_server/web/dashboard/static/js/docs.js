/** The page of the API: Swagger UI on the server's OpenAPI document, with the page's token. */

import { h } from "./elements.js";
import { token } from "./session.js";

/** Add the token to a request, unless the user has entered another. */
function withToken(request) {
  const isHere = new URL(request.url, location.href).origin === location.origin;
  const headers = request.headers ?? {};
  if (isHere && token() && !headers.Authorization) request.headers = { ...headers, Authorization: `Bearer ${token()}` };
  return request;
}

/** Say how to sign in, where the server refuses the document. */
function withHint(response) {
  if (response.status === 401 && response.url.endsWith("/openapi.json")) {
    const words = h("p", { role: "alert" }, "The server needs a token. ", h("a", { href: "/#/" }, "Sign in"), " and come back.");
    document.querySelector("main").before(words);
  }
  return response;
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const paint = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", paint);
paint();
globalThis.SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  docExpansion: "none",
  defaultModelsExpandDepth: -1,
  filter: true,
  // No document is sent to a checking service elsewhere.
  validatorUrl: null,
  requestInterceptor: withToken,
  responseInterceptor: withHint,
});

/** Pictures of environments, which the server has drawn when somebody first asks for them. */

import { h } from "./elements.js";
import { request } from "./server.js";

const urls = new Map();

/** Make what stands for an environment: a letter until `show` has its picture. */
export function tileOf(letter) {
  return h("span", { class: "thumbnail", "aria-hidden": "true", "data-letter": letter });
}

/** Put the picture of an environment into a tile; without one the letter stays. */
export async function show(tile, envID) {
  if (!urls.has(envID)) urls.set(envID, load(envID));
  const src = await urls.get(envID);
  if (src) tile.replaceChildren(h("img", { src, alt: "" }));
}

async function load(envID) {
  try {
    const response = await request("GET", `/v1/registry/${encodeURI(envID)}/thumbnail/`);
    return response.status === 200 ? URL.createObjectURL(await response.blob()) : "";
  } catch {
    return "";
  }
}

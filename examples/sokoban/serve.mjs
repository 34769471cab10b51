/**
 * Serves the page on a port of its own.
 *
 *     node serve.mjs [PORT]
 */

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";

const FILES = {
  "/": ["index.html", "text/html"],
  ...Object.fromEntries(
    ["page", "environment", "levels", "pictures", "rules"].map((name) => [`/${name}.js`, [`${name}.js`, "text/javascript"]]),
  ),
};

const server = createServer(async (request, response) => {
  const { pathname } = new URL(request.url, "http://page");
  if (!Object.hasOwn(FILES, pathname)) return response.writeHead(404).end();
  const [file, type] = FILES[pathname];
  const content = await readFile(fileURLToPath(new URL(file, import.meta.url)));
  return response.writeHead(200, { "Content-Type": `${type}; charset=utf-8` }).end(content);
});
server.on("error", (error) => {
  console.error(`${error.message}: give another port, as in node serve.mjs 8001`);
  process.exitCode = 1;
});
server.listen(Number(process.argv[2] ?? 8000), "127.0.0.1", () => {
  const origin = `http://127.0.0.1:${server.address().port}`;
  console.log(`The game is at ${origin}/, for a server with --allow-origin ${origin}`);
});

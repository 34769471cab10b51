/**
 * Serves the page, and the client beside it, on a port of its own.
 *
 *     node serve.mjs [PORT]
 */

import { createReadStream, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript" };
const PAGE = "/examples/page/index.html";

const server = createServer((request, response) => {
  const { pathname } = new URL(request.url, "http://page");
  if (pathname === "/") return response.writeHead(302, { Location: PAGE }).end();
  const path = join(ROOT, normalize(decodeURIComponent(pathname)));
  const type = TYPES[extname(path)];
  if (!type || !path.startsWith(ROOT) || !statSync(path, { throwIfNoEntry: false })?.isFile()) {
    return response.writeHead(404).end();
  }
  response.writeHead(200, { "Content-Type": type });
  createReadStream(path).pipe(response);
});
server.listen(Number(process.argv[2] ?? 8000), "127.0.0.1", () => {
  const origin = `http://127.0.0.1:${server.address().port}`;
  console.log(`The page is at ${origin}/, for a server with --allow-origin ${origin}`);
});

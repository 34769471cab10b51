/** Bundles a program with esbuild, webpack and Vite, set up as their guides begin. */

import { copyFile, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

import * as esbuild from "esbuild";
import * as vite from "vite";
import webpack from "webpack";

const [folder] = process.argv.slice(2);
const entry = join(folder, "app.js");
const output = (name) => join(folder, "pages", name);

/** Fail on warnings as well: each is about something that users would see, too. */
function demandNone(name, warnings) {
  if (warnings.length) throw new Error(`${name} warns: ${JSON.stringify(warnings)}`);
}

async function withEsbuild() {
  for (const platform of ["browser", "node"]) {
    const outfile = join(output("esbuild"), platform === "node" ? "node.mjs" : "app.js");
    const { warnings } = await esbuild.build({
      ...{ entryPoints: [entry], outfile, platform },
      ...{ bundle: true, format: "esm", minify: true, logLevel: "silent" },
    });
    demandNone(`esbuild for ${platform}`, warnings);
  }
}

async function withWebpack() {
  const stats = await promisify(webpack)({
    mode: "production",
    entry,
    output: { path: output("webpack"), filename: "app.js" },
    performance: false,
  });
  const { errors, warnings } = stats.toJson();
  demandNone("webpack", [...errors, ...warnings]);
}

async function withVite() {
  const warnings = [];
  const customLogger = {
    ...vite.createLogger("silent"),
    warn: (message) => warnings.push(message),
    warnOnce: (message) => warnings.push(message),
  };
  await vite.build({
    ...{ root: folder, configFile: false, base: "./", customLogger },
    build: { outDir: output("vite"), emptyOutDir: false },
  });
  demandNone("Vite", warnings);
}

for (const name of ["esbuild", "webpack"]) {
  await mkdir(output(name), { recursive: true });
  await copyFile(join(folder, "index.html"), join(output(name), "index.html"));
}
await withEsbuild();
await withWebpack();
await withVite();

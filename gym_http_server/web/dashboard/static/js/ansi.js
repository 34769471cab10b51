/** Text of terminals: its colours as runs with classes. No HTML is made of it. */

const SEQUENCE = /\x1b\[([0-9;]*)([A-Za-z])/g;
const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

/**
 * Split a text of a terminal into runs of one look.
 *
 * @param {string} text
 * @returns {{ text: string, classes: string }[]} Without empty runs; `classes` has names
 *   such as `ansi-red`, `ansi-on-yellow` and `ansi-bold`, with blanks between them.
 */
export function ansiRuns(text) {
  const runs = [];
  const look = new Map();
  let from = 0;
  const add = (part) => part && runs.push({ text: part, classes: [...look.values()].join(" ") });
  for (const found of text.matchAll(SEQUENCE)) {
    add(text.slice(from, found.index));
    from = found.index + found[0].length;
    if (found[2] === "m") found[1].split(";").forEach((code) => apply(look, Number(code)));
  }
  add(text.slice(from));
  return runs;
}

function apply(look, code) {
  const colour = COLOURS[code % 10];
  if (code === 0) look.clear();
  else if (code === 1) look.set("weight", "ansi-bold");
  else if (code === 4) look.set("line", "ansi-underlined");
  else if (code === 7) look.set("inverse", "ansi-inverse");
  else if (code === 39) look.delete("colour");
  else if (code === 49) look.delete("ground");
  else if (colour && [3, 9].includes(Math.floor(code / 10))) look.set("colour", `ansi-${colour}`);
  else if (colour && [4, 10].includes(Math.floor(code / 10))) look.set("ground", `ansi-on-${colour}`);
}

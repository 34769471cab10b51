/** Pictures: 8 x 8 pixels for each tile, for people and for observations. */

import { SIZE, Tile } from "./rules.js";

export const TILE_PIXELS = 8;
export const PIXELS = SIZE * TILE_PIXELS;

const COLOURS = {
  " ": [236, 228, 208],
  ".": [221, 211, 187],
  "#": [94, 84, 102],
  "-": [70, 62, 78],
  o: [204, 92, 76],
  b: [178, 126, 66],
  B: [128, 84, 40],
  g: [112, 158, 84],
  G: [70, 112, 56],
  p: [66, 110, 168],
  s: [240, 196, 152],
  k: [40, 40, 52],
};
const PICTURES = {
  [Tile.FLOOR]: "        |    .   |        | .      |        |      . |  .     |        ",
  [Tile.WALL]: "#######-|#######-|#######-|--------|###-####|###-####|###-####|--------",
  [Tile.GOAL]: "        |  oooo  | o    o | o oo o | o oo o | o    o |  oooo  |        ",
  [Tile.CRATE]: "BBBBBBBB|BbBbbBbB|BbbBBbbB|BbBbbBbB|BbBbbBbB|BbbBBbbB|BbBbbBbB|BBBBBBBB",
  [Tile.CRATE_ON_GOAL]: "GGGGGGGG|GgGggGgG|GggGGggG|GgGggGgG|GgGggGgG|GggGGggG|GgGggGgG|GGGGGGGG",
  [Tile.PLAYER]: "   kk   |  kkkk  |  skks  |  ssss  | pppppp | s pp s |  pppp  |  k  k  ",
  [Tile.PLAYER_ON_GOAL]: "   kk   | okkkko |  skks  | ossss o| pppppp | s pp s | opppp o|  k  k  ",
};
const SPRITES = Object.values(PICTURES).map((picture) =>
  picture.split("|").flatMap((row) => Array.from(row, (letter) => COLOURS[letter])),
);

/** Return the pixels of a game: height, width and three colours. */
export function pixelsOf(game) {
  const pixels = new Uint8Array(PIXELS * PIXELS * 3);
  const tiles = game.tiles();
  for (let y = 0; y < PIXELS; y++) {
    for (let x = 0; x < PIXELS; x++) {
      const tile = tiles[Math.floor(y / TILE_PIXELS) * SIZE + Math.floor(x / TILE_PIXELS)];
      const colour = SPRITES[tile][(y % TILE_PIXELS) * TILE_PIXELS + (x % TILE_PIXELS)];
      pixels.set(colour, (y * PIXELS + x) * 3);
    }
  }
  return pixels;
}

/** Draw a game on a canvas of as many pixels; style sheets make it larger. */
export function draw(game, canvas) {
  const brush = canvas.getContext("2d");
  const image = brush.createImageData(PIXELS, PIXELS);
  const pixels = pixelsOf(game);
  for (let at = 0, to = 0; at < pixels.length; at += 3, to += 4) {
    image.data.set(pixels.subarray(at, at + 3), to);
    image.data[to + 3] = 255;
  }
  brush.putImageData(image, 0, 0);
}

/** float16, which JavaScript has no arrays of everywhere: as float32 and back, exactly. */

const floats = new Float32Array(1);
const bits = new Uint32Array(floats.buffer);

/** Widen the bits of a float16 to those of the same float32, NaN's included. */
export function widenBits(half) {
  const sign = (half & 0x8000) << 16;
  const exponent = (half >> 10) & 31;
  let fraction = half & 0x3ff;
  if (exponent === 31) return (sign | 0x7f800000 | (fraction << 13)) >>> 0;
  if (exponent) return (sign | ((exponent + 112) << 23) | (fraction << 13)) >>> 0;
  if (!fraction) return sign >>> 0;
  let shift = 0;
  while (!(fraction & 0x400)) {
    fraction <<= 1;
    shift++;
  }
  return (sign | ((113 - shift) << 23) | ((fraction & 0x3ff) << 13)) >>> 0;
}

/** Narrow the bits of a float32 to those of the nearest float16, ties to even. */
export function narrowBits(single) {
  const sign = (single >>> 16) & 0x8000;
  const exponent = (single >>> 23) & 255;
  const fraction = single & 0x7fffff;
  if (exponent === 255) {
    const kept = fraction >> 13;
    return sign | 0x7c00 | (fraction && !kept ? 1 : kept);
  }
  const power = exponent - 112;
  if (power >= 31) return sign | 0x7c00;
  if (power > 0) return sign | rounded((power << 23) | fraction, 13);
  if (power < -10) return sign;
  return sign | rounded(fraction | 0x800000, 14 - power);
}

function rounded(value, drop) {
  const kept = value >>> drop;
  const rest = value & ((1 << drop) - 1);
  const half = 1 << (drop - 1);
  return rest > half || (rest === half && kept & 1) ? kept + 1 : kept;
}

/** Round a number to the nearest float16. */
export function roundToHalf(number) {
  floats[0] = number;
  bits[0] = widenBits(narrowBits(bits[0]));
  return floats[0];
}

/** Make a Float32Array of the bytes of little-endian float16s. */
export function readHalves(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const read = new Uint32Array(bytes.byteLength / 2);
  for (let i = 0; i < read.length; i++) read[i] = widenBits(view.getUint16(2 * i, true));
  return new Float32Array(read.buffer);
}

/** Encode float32s as the bytes of little-endian float16s. */
export function writeHalves(singles) {
  const from = new Uint32Array(singles.buffer, singles.byteOffset, singles.length);
  return new Uint8Array(Uint16Array.from(from, narrowBits).buffer);
}

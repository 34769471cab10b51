/**
 * Dialects: the messages between a server and an external environment.
 *
 * The server sends `{ type, id, … }`: a request with its arguments as further
 * members; or `ping`, `pong` or `fault`. The environment sends `{ id, result }` or
 * `{ id, error }`.
 */

import { ProtocolError } from "../errors.js";
import { Form, decodeFrame, encodeFrame } from "../frames.js";
import { parse } from "../json.js";
import { stringify } from "../json_writer.js";
import { plainTree } from "../plain.js";
import { BinaryBody } from "../request_bodies.js";
import { Announced } from "../signatures.js";
import { readUtf8, writeText } from "../text.js";
import { decodeTyped } from "../typed_reader.js";
import { typedTree } from "../typed_writer.js";

/** Operations of frames; those below 48 are streams'. */
const TYPES = new Map([
  [1, "reset"],
  [2, "step"],
  [3, "render"],
  [4, "describe"],
  [13, "generator"],
  [14, "set_generator"],
  [15, "attribute"],
  [16, "set_attribute"],
  [17, "call_attribute"],
  [48, "init"],
  [49, "close"],
  [50, "ping"],
  [51, "pong"],
  [52, "fault"],
]);
const NUMBERS = new Map(Array.from(TYPES, ([number, type]) => [type, number]));
const FAILED = 502;

/** Messages in JSON. */
class TextDialect {
  #parse;
  #tree;

  /**
   * @param {(text: string) => object} parse
   * @param {(value: unknown) => unknown} tree Makes the tree of JSON that stands for a value.
   */
  constructor(parse, tree) {
    [this.#parse, this.#tree] = [parse, tree];
  }

  /** Decode a message of the server. */
  read(message) {
    if (typeof message !== "string") throw new ProtocolError("a message of the server is no text");
    return this.#parse(message);
  }

  /** Encode the result of a request. */
  answer(id, result) {
    return stringify({ id, result: this.#tree(result) });
  }

  /** Encode the error of a request. */
  failure(id, error) {
    return stringify({ id, error });
  }

  /** Encode `ping` or `pong`. */
  control(type) {
    return stringify({ type });
  }
}

/** JSON, with values as plain as thin clients have them. */
export class JsonDialect extends TextDialect {
  constructor() {
    super(parse, plainTree);
  }
}

/** JSON, with values that lose nothing. */
export class TypedDialect extends TextDialect {
  constructor() {
    super(decodeTyped, typedTree);
  }
}

/** The frames of streams, with the roles turned round. */
export class BinaryDialect {
  #announced = new Announced();
  #numbers = new Map();

  /** Decode a message of the server. */
  read(message) {
    if (typeof message === "string") throw new ProtocolError("a message of the server is text");
    const { operation, number: id, form, head, body } = decodeFrame(message);
    const type = TYPES.get(operation) ?? `operation ${operation}`;
    if (type === "init") {
      this.#announced = new Announced();
      this.#numbers = new Map();
    }
    const reply = head?.value === undefined ? { type, id } : { type, id, name: head.value };
    if (!body.length) return reply;
    const given = form === Form.BINARY ? this.#announced.read(body) : parse(readUtf8(body));
    return { ...(given instanceof Map ? Object.fromEntries(given) : given), ...reply };
  }

  /** Encode the result of a request. */
  answer(number, result) {
    const body = new BinaryBody(result).onStream(this.#numbers);
    return encodeFrame({ status: 200, operation: 0, form: Form.BINARY, number, body });
  }

  /** Encode the error of a request. */
  failure(number, error) {
    const body = writeText(stringify(error));
    return encodeFrame({ status: FAILED, operation: 0, form: Form.JSON, number, body });
  }

  /** Encode `ping` or `pong`. */
  control(type) {
    return encodeFrame({ operation: NUMBERS.get(type), form: Form.NONE, number: 0 });
  }
}

/** The dialects by their names. */
export const DIALECTS = { json: JsonDialect, typed: TypedDialect, binary: BinaryDialect };

"""Unusual and invalid request bodies, which must not make a server fail."""

import json

DEEP = 100_000

#: Bodies that are no JSON, or no JSON that can be taken for a value.
NOT_JSON: dict[str, bytes] = {
    "nothing but space": b"  \n\t ",
    "half an object": b'{"action": ',
    "trailing comma": b'{"action": 1,}',
    "two values": b'{"action": 1} {"action": 1}',
    "single quotes": b"{'action': 1}",
    "comment": b'{"action": 1} // one',
    "unquoted key": b"{action: 1}",
    "a form": b"action=1&env_id=CartPole-v1",
    "xml": b"<action>1</action>",
    "NUL": b'{"action": 1}\x00',
    "control character": b'{"action": "\x01"}',
    "not UTF-8": b'{"action": "\xff\xfe"}',
    "overlong UTF-8": b'{"action": "\xc0\xaf"}',
    "BOM": b"\xef\xbb\xbf" + b'{"action": 1, "env_id": "CartPole-v1"}',
    "UTF-16": '{"action": 1, "env_id": "CartPole-v1"}'.encode("utf-16"),
    "UTF-16-LE": '{"action": 1, "env_id": "CartPole-v1"}'.encode("utf-16-le"),
    "UTF-32": '{"action": 1, "env_id": "CartPole-v1"}'.encode("utf-32"),
    "NaN": b'{"action": NaN, "env_id": NaN, "directory": NaN}',
    "Infinity": b'{"action": Infinity, "env_id": Infinity, "directory": Infinity}',
    "-Infinity": b'{"action": -Infinity, "env_id": -Infinity}',
    "hex": b'{"action": 0x10}',
    "leading zero": b'{"action": 01}',
    "plus": b'{"action": +1}',
    "bare point": b'{"action": .5}',
    "deep lists": b"[" * DEEP + b"]" * DEEP,
    "deep lists, open": b"[" * DEEP,
    "deep objects": b'{"action":' * DEEP + b"1" + b"}" * DEEP,
    "deep action": b'{"action":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "half a string": b'{"action": "' + b"a" * 1000,
    "binary": bytes(range(256)),
}


def _everywhere(value: str) -> bytes:
    """Insert a piece of JSON at the place that each route reads."""
    names = ("action", "directory", "env_id", "name", "training_dir", "value")
    return ("{" + ", ".join(f'"{name}": {value}' for name in names) + "}").encode()


#: Bodies that are JSON, with values that no route can use.
ODD_VALUES: dict[str, bytes] = {
    "1e999": _everywhere("1e999"),
    "-1e999": _everywhere("-1e999"),
    "10^400": _everywhere("1" + "0" * 400),
    "-10^400": _everywhere("-1" + "0" * 400),
    "4301 digits": _everywhere("7" * 4301),
    "2^63": _everywhere(str(2**63)),
    "2^64": _everywhere(str(2**64)),
    "-2^63-1": _everywhere(str(-(2**63) - 1)),
    "lone surrogate": _everywhere(r'"\ud800"'),
    "lone low surrogate": _everywhere(r'"x\udc00y"'),
    "escaped NUL": _everywhere(r'"a\u0000b"'),
    "line feeds": _everywhere(r'"a\r\nSet-Cookie: x=1\r\n\r\nb"'),
    "terminal escapes": _everywhere(r'"\u001b[31mred"'),
    "bidi": _everywhere('"\u202eevil"'),
    "long text": _everywhere(json.dumps("x" * 100_000)),
    "object": _everywhere('{"a": {"b": []}}'),
    "list of null": _everywhere("[null, null]"),
    "list of lists": _everywhere("[[[[[[1]]]]]]"),
    "text": _everywhere('"up"'),
    "negative": _everywhere("-1"),
    "fraction": _everywhere("0.5"),
    "reserved words": b'{"__class__": 1, "__proto__": 2, "$ref": 3, "action": {}}',
}

#: Bodies that are JSON and no object.
NO_OBJECTS: dict[str, bytes] = {
    "null": b"null",
    "true": b"true",
    "number": b"17",
    "text": b'"action"',
    "list": b"[1, 2, 3]",
    "list of pairs": b'[["action", 1]]',
}

#: Directories outside the data directory, or that no file system accepts.
CLIMBING: list[str] = [
    "..",
    "../",
    "../x",
    "../../etc",
    "../../../../../../../../../../etc/cron.d",
    "a/..",
    "a/../..",
    "a/../b",
    "a/../../b",
    "a/b/..",
    "a/b/../../../c",
    "./..",
    "./../x",
    ".././x",
    "..//x",
    "/..",
    "/../x",
    "/tmp/..",
    "/tmp/../../etc",
    "//..//x",
    "a/./../../x",
    "x/../../data",
    "x\x00y",
    "\x00",
    "../x\x00",
]

#: Directories that look like those and are none: refused or kept inside.
ODD_DIRECTORIES: list[str] = [
    "..\\x",
    "a\\..\\..\\x",
    "\\\\host\\share\\..",
    "%2e%2e/x",
    "..%2fx",
    "..;/x",
    "...",
    "..\n",
    " ../x",
    "\uff0e\uff0e/x",
    "~root/x",
    "$HOME/x",
    "C:\\x",
    ".",
    "/",
    "//",
    "x\n{}",
    "x" * 300,
    "a/" * 3000,
]

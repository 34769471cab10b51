"""Malformed values in typed JSON and in the binary form."""

import struct
from collections.abc import Iterator

from tests.conformance.making import Case
from tests.conformance.making.forms import whole

DESCRIPTION = "What must be refused as a value: lies, cuts and unknown words"

_DEEP = 1000


def cases() -> Iterator[Case]:
    """Yield all cases."""
    for name, text in _texts().items():
        yield {"id": f"typed-{name}", "form": "typed", "text": text}
    # Not all of these are texts.
    for name, raw in _no_texts().items():
        yield {"id": f"typed-{name}", "form": "typed", "hex": raw.hex()}
    for name, data in {**_cut(), **_signatures(), **_leaves()}.items():
        yield {"id": f"binary-{name}", "form": "binary", "hex": data.hex()}


def _no_texts() -> dict[str, bytes]:
    return {
        "utf-8-bad-byte": b'"\xff"',
        "utf-8-cut": b'"\xe7\x8e"',
        "utf-8-overlong": b'"\xc0\x80"',
        "utf-8-surrogate": b'"\xed\xa0\x80"',
        "nul-after": b"1\x00",
    }


def _texts() -> dict[str, str]:
    base64 = '{"$t":"nd","d":"<f4","s":[%s],"v":"%s"}'
    return {
        "empty": "",
        "cut-list": "[1,2",
        "cut-object": '{"a":1',
        "cut-string": '"abc',
        "cut-word": "nul",
        "no-json": "hello",
        "two-values": "1 2",
        "comma-last": "[1,]",
        "comma-last-object": '{"a":1,}',
        "comment": "[1] // one",
        "single-quotes": "'a'",
        "key-without-quotes": "{a:1}",
        "nan": "NaN",
        "infinity": "[Infinity]",
        "leading-zero": "01",
        "control-character": '"\n"',
        "escape-unknown": '"\\x41"',
        "escape-cut": '"\\u12"',
        "deep-lists": "[" * _DEEP + "]" * _DEEP,
        "deep-objects": '{"a":' * _DEEP + "1" + "}" * _DEEP,
        "deep-tuples": '{"$t":"tuple","v":[' * _DEEP + "]}" * _DEEP,
        "tag-unknown": '{"$t":"sphere","v":1}',
        "tag-number": '{"$t":1,"v":1}',
        "tag-null": '{"$t":null,"v":1}',
        "tag-list": '{"$t":["int"],"v":"1"}',
        "tag-empty": '{"$t":""}',
        "int-missing": '{"$t":"int"}',
        "int-number": '{"$t":"int","v":1}',
        "int-fraction": '{"$t":"int","v":"1.5"}',
        "int-empty": '{"$t":"int","v":""}',
        "int-plus": '{"$t":"int","v":"+1"}',
        "int-blank": '{"$t":"int","v":" 1"}',
        "int-hexadecimal": '{"$t":"int","v":"0x1"}',
        "int-underscore": '{"$t":"int","v":"1_0"}',
        "float-word": '{"$t":"float","v":"infinity"}',
        "float-number": '{"$t":"float","v":1.5}',
        "float-bits-short": '{"$t":"float","v":"7ff8"}',
        "float-bits-no-hex": '{"$t":"float","v":"7ff800000000000g"}',
        "str-no-base64": '{"$t":"str","v":"!"}',
        "str-no-utf-8": '{"$t":"str","v":"/w=="}',
        "bytes-no-string": '{"$t":"bytes","v":[1]}',
        "bytes-no-base64": '{"$t":"bytes","v":"a-_b"}',
        "bytes-no-padding": '{"$t":"bytes","v":"AAA"}',
        "bytes-padding-inside": '{"$t":"bytes","v":"AA==AA=="}',
        "bytes-padding-alone": '{"$t":"bytes","v":"===="}',
        "bytes-one-character": '{"$t":"bytes","v":"A"}',
        "tuple-no-list": '{"$t":"tuple","v":{"0":1}}',
        "tuple-missing": '{"$t":"tuple"}',
        "dict-no-list": '{"$t":"dict","v":{"a":1}}',
        "dict-no-pairs": '{"$t":"dict","v":["a"]}',
        "dict-object-of-two-letters": '{"$t":"dict","v":{"ab":1}}',
        "dict-strings": '{"$t":"dict","v":["ab"]}',
        "dict-three": '{"$t":"dict","v":[["a",1,2]]}',
        "dict-key-twice": '{"$t":"dict","v":[["a",1],["a",2]]}',
        "dict-key-int-twice": '{"$t":"dict","v":[[1,1],[1,2]]}',
        "dict-key-list": '{"$t":"dict","v":[[[1],1]]}',
        "dict-key-object": '{"$t":"dict","v":[[{"a":1},1]]}',
        "nd-no-dtype": '{"$t":"nd","s":[0],"v":""}',
        "nd-no-shape": '{"$t":"nd","d":"<f4","v":""}',
        "nd-dtype-unknown": '{"$t":"nd","d":"<f3","s":[1],"v":"AAAA"}',
        "nd-dtype-name": '{"$t":"nd","d":"float32","s":[1],"v":"AAAAAA=="}',
        "nd-dtype-objects": '{"$t":"nd","d":"|O","s":[1],"v":"AAAAAAAAAAA="}',
        "nd-dtype-number": '{"$t":"nd","d":4,"s":[1],"v":"AAAAAA=="}',
        "nd-dtype-native-order": '{"$t":"nd","d":"=f4","s":[1],"v":"AAAAAA=="}',
        "nd-too-few": base64 % ("2", "AAAAAA=="),
        "nd-too-many": base64 % ("1", "AAAAAAAAAAA="),
        "nd-none": base64 % ("1", ""),
        "nd-shape-negative": base64 % ("-1", "AAAAAA=="),
        "nd-shape-negative-twice": base64 % ("-1,-1", "AAAAAA=="),
        "nd-shape-fraction": base64 % ("1.5", "AAAAAA=="),
        "nd-shape-string": base64 % ('"1"', "AAAAAA=="),
        "nd-shape-large": base64 % ("9223372036854775808", "AAAAAA=="),
        "nd-shape-product-wraps": base64 % ("4294967296,4294967296", ""),
        "nd-shape-product-wraps-to-1": base64 % ("274177,67280421310721", "AAAAAA=="),
        "nd-bool-2": '{"$t":"nd","d":"|b1","s":[1],"v":"Ag=="}',
        "ns-too-few": '{"$t":"ns","d":"<f8","v":"AAAAAA=="}',
        "ns-too-many": '{"$t":"ns","d":"<f4","v":"AAAAAAAAAAA="}',
        "ns-dtype-unknown": '{"$t":"ns","d":"<q9","v":""}',
        "oa-count": '{"$t":"oa","s":[2],"v":[1]}',
        "oa-no-list": '{"$t":"oa","s":[1],"v":"a"}',
        "graph-part-missing": '{"$t":"graph","nodes":null,"edges":null}',
        "complex-no-list": '{"$t":"complex","v":"1+2j"}',
        "complex-one": '{"$t":"complex","v":[1.5]}',
        "complex-three": '{"$t":"complex","v":[1.5,0.0,0.0]}',
        "complex-words": '{"$t":"complex","v":["1","2"]}',
        "unsent-no-list": '{"$t":"unsent","v":"{1, 2}"}',
        "unsent-one": '{"$t":"unsent","v":["{1, 2}"]}',
        "unsent-numbers": '{"$t":"unsent","v":[1,2]}',
        "autoreset-unknown": '{"$t":"autoreset","v":"Sometimes"}',
        "space-unknown": '{"$t":"space","v":{"type":"Sphere"}}',
        "space-no-object": '{"$t":"space","v":"Discrete"}',
        "autoreset-number": '{"$t":"autoreset","v":1}',
        "dict-pair-short": '{"$t":"dict","v":[["a"]]}',
        "space-missing": '{"$t":"space"}',
        "wrong-inside": '{"a":[1,{"$t":"int","v":"x"}]}',
    }


def _cut() -> dict[str, bytes]:
    one = whole(b'"int"', struct.pack("<q", 1))
    text = whole(b'"str"', struct.pack("<Q", 3) + b"abc" + bytes(5))
    picture = whole(b'{"nd":["<f4",[3]]}', bytes(16))
    return {
        "empty": b"",
        "header-cut": one[:7],
        "header-alone": one[:8],
        "signature-cut": one[:12],
        "leaves-missing": one[:16],
        "leaves-cut": one[:23],
        "text-cut": text[:-8],
        "text-padding-missing": text[:-5],
        "array-cut": picture[:-8],
        "array-padding-missing": picture[:-4],
        "byte-after": one + b"\x00",
        "word-after": one + bytes(8),
        "signature-size-0": struct.pack("<II", 0, 0) + bytes(8),
        "signature-size-largest": struct.pack("<II", 2**32 - 8, 0) + one[8:],
        "signature-size-no-multiple": struct.pack("<II", 5, 0) + one[8:13] + one[16:],
        "signature-named": whole(b'"int"', struct.pack("<q", 1), 1),
        "signature-called": struct.pack("<II", 0, 1) + struct.pack("<q", 1),
    }


def _signatures() -> dict[str, bytes]:
    deep = b'{"list":[' * _DEEP + b'"none"' + b"]}" * _DEEP
    texts = {
        "blank": b"        ",
        "no-json": b"int",
        "no-utf-8": b'"\xff"',
        "two": b'"int" "int"',
        "null": b"null",
        "list": b'["int"]',
        "number": b"1",
        "word-unknown": b'"decimal"',
        "word-other-case": b'"Int"',
        "object-empty": b"{}",
        "object-unknown": b'{"set":["none"]}',
        "object-of-two": b'{"list":["none"],"tuple":["none"]}',
        "deep": deep,
        "list-no-list": b'{"list":"none"}',
        "list-wrong-inside": b'{"list":["none","nothing"]}',
        "dict-no-pairs": b'{"dict":["a"]}',
        "dict-three": b'{"dict":[["a","none","none"]]}',
        "dict-object": b'{"dict":{"a":"none"}}',
        "dict-key-twice": b'{"dict":[["a","none"],["a","none"]]}',
        "dict-key-list": b'{"dict":[[[1],"none"]]}',
        "nd-no-shape": b'{"nd":["<f4"]}',
        "nd-of-three": b'{"nd":["<f4",[0],0]}',
        "nd-dtype-native-order": b'{"nd":["=f4",[0]]}',
        "dict-pair-short": b'{"dict":[["a"]]}',
        "nd-string": b'{"nd":"<f4"}',
        "nd-dtype-unknown": b'{"nd":["<f3",[0]]}',
        "nd-dtype-objects": b'{"nd":["|O",[0]]}',
        "nd-dtype-fields": b'{"nd":["|V8",[0]]}',
        "nd-shape-negative": b'{"nd":["<f4",[-1]]}',
        "nd-shape-fraction": b'{"nd":["<f4",[0.5]]}',
        "nd-shape-number": b'{"nd":["<f4",0]}',
        "nd-shape-string": b'{"nd":["<f4",["0"]]}',
        "nd-shape-2-63": b'{"nd":["|u1",[9223372036854775808]]}',
        "nd-shape-product-wraps": b'{"nd":["|u1",[4294967296,4294967296]]}',
        "nd-shape-bytes-wrap": b'{"nd":["<f8",[2305843009213693952]]}',
        "ns-list": b'{"ns":["<f4"]}',
        "ns-dtype-unknown": b'{"ns":"<f3"}',
        "oa-count": b'{"oa":[[2],["none"]]}',
        "oa-no-shape": b'{"oa":[["none"]]}',
        "oa-shape-wraps": b'{"oa":[[4294967296,4294967296],[]]}',
        "graph-of-two": b'{"graph":["none","none"]}',
        "autoreset-unknown": b'{"autoreset":"Sometimes"}',
        "space-unknown": b'{"space":{"type":"Sphere"}}',
        "space-no-object": b'{"space":[]}',
    }
    return {f"signature-{name}": whole(text) for name, text in texts.items()}


def _leaves() -> dict[str, bytes]:
    def sized(word: bytes, size: int, data: bytes) -> bytes:
        return whole(word, struct.pack("<Q", size) + data)

    picture = b'{"nd":["|u1",[2147483647,1000]]}'
    return {
        "bool-2": whole(b'"bool"', b"\x02" + bytes(7)),
        "nd-bool-2": whole(b'{"nd":["|b1",[2]]}', b"\x01\x02" + bytes(6)),
        "ns-bool-2": whole(b'{"ns":"|b1"}', b"\xff" + bytes(7)),
        "str-size-lies": sized(b'"str"', 9, b"abcdefgh"),
        "str-size-2-31": sized(b'"str"', 2**31, b"abcdefgh"),
        "str-size-2-53": sized(b'"str"', 2**53, b"abcdefgh"),
        "str-size-2-63": sized(b'"str"', 2**63, b"abcdefgh"),
        "str-size-largest": sized(b'"str"', 2**64 - 1, b"abcdefgh"),
        "str-size-wraps": sized(b'"str"', 2**64 - 8, b"abcdefgh"),
        "bytes-size-2-63": sized(b'"bytes"', 2**63 - 1, bytes(8)),
        "complex-cut": whole(b'"complex"', bytes(8)),
        "unsent-one": sized(b'"unsent"', 3, b"set" + bytes(5)),
        "unsent-no-utf-8": sized(b'"unsent"', 1, b"\xff" + bytes(15)),
        "str-no-utf-8": sized(b'"str"', 1, b"\xff" + bytes(7)),
        "str-utf-8-cut": sized(b'"str"', 2, b"\xe7\x8e" + bytes(6)),
        "str-utf-8-overlong": sized(b'"str"', 2, b"\xc0\x80" + bytes(6)),
        "str-utf-8-beyond": sized(b'"str"', 4, b"\xf4\x90\x80\x80" + bytes(4)),
        "bigint-empty": sized(b'"bigint"', 0, b""),
        "bigint-letters": sized(b'"bigint"', 3, b"abc" + bytes(5)),
        "bigint-fraction": sized(b'"bigint"', 3, b"1.5" + bytes(5)),
        "bigint-plus": sized(b'"bigint"', 2, b"+1" + bytes(6)),
        "bigint-minus-alone": sized(b'"bigint"', 1, b"-" + bytes(7)),
        "array-announces-2-tib": whole(picture, bytes(8)),
        "array-too-few": whole(b'{"nd":["<f4",[3]]}', bytes(8)),
        "array-too-many": whole(b'{"nd":["<f4",[1]]}', bytes(16)),
    }

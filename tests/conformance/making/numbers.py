"""JSON numbers, and texts that only resemble them."""

import struct
from collections.abc import Iterator

from tests.conformance.making import Case

DESCRIPTION = "Numbers as JSON writes them, and what they are: a reader must keep all"

_INTEGERS = {
    "zero": "0",
    "one": "1",
    "minus-one": "-1",
    "2-31": "2147483648",
    "2-32": "4294967296",
    "2-53-minus-1": "9007199254740991",
    "2-53": "9007199254740992",
    "2-53-plus-1": "9007199254740993",
    "minus-2-53-minus-1": "-9007199254740993",
    "2-63-minus-1": "9223372036854775807",
    "2-63": "9223372036854775808",
    "minus-2-63": "-9223372036854775808",
    "minus-2-63-minus-1": "-9223372036854775809",
    "2-64-minus-1": "18446744073709551615",
    "2-64": "18446744073709551616",
    "10-30": "1000000000000000000000000000000",
    "10-400": "1" + "0" * 400,
}

# The bits were looked up in tables of IEEE 754 where they are round; a test compares
# all of them with Python's reader.
_FLOATS = {
    "0.0": "0000000000000000",
    "-0.0": "8000000000000000",
    "0e0": "0000000000000000",
    "-0e-5": "8000000000000000",
    "1.0": "3ff0000000000000",
    "-1.0": "bff0000000000000",
    "1e0": "3ff0000000000000",
    "1E2": "4059000000000000",
    "1e+2": "4059000000000000",
    "10e-1": "3ff0000000000000",
    "1.5": "3ff8000000000000",
    "0.1": "3fb999999999999a",
    "0.30000000000000004": "3fd3333333333334",
    "0.3": "3fd3333333333333",
    "3.4028235e+38": "47efffffe54daff8",
    "3.4028234663852886e+38": "47efffffe0000000",
    "1e-45": "3696d601ad376ab9",
    "1.401298464324817e-45": "36a0000000000000",
    "0.10000000149011612": "3fb99999a0000000",
    "4.8": "4013333333333333",
    "1.7976931348623157e308": "7fefffffffffffff",
    "1.7976931348623157e+308": "7fefffffffffffff",
    "2.2250738585072014e-308": "0010000000000000",
    "2.225073858507201e-308": "000fffffffffffff",
    "5e-324": "0000000000000001",
    "4.9406564584124654e-324": "0000000000000001",
    "9007199254740992.0": "4340000000000000",
    # Halfway between two doubles: to the even one.
    "9007199254740993.0": "4340000000000000",
    "9007199254740995.0": "4340000000000002",
    "1e22": "4480f0cf064dd592",
    "1e23": "44b52d02c7e14af6",
    "1e100": "54b249ad2594c37d",
    "-1e100": "d4b249ad2594c37d",
    "123456789.123456789": "419d6f34547e6b75",
    "0.000001": "3eb0c6f7a0b5ed8d",
    "2.2250738585072011e-308": "000fffffffffffff",
    "1.00000000000000011102230246251565": "3ff0000000000000",
    "1.00000000000000011102230246251566": "3ff0000000000001",
    "0.1000000000000000055511151231257827021181583404541015625": "3fb999999999999a",
    "1e-400": "0000000000000000",
    "-1e-400": "8000000000000000",
    "2.4703282292062327208e-324": "0000000000000000",
    "2.4703282292062328e-324": "0000000000000001",
    "123456789012345678901234567890.0": "45f8ee90ff6c373e",
    "0.00000000000000000000000000000000000000000000000001": "358dee7a4ad4b81f",
}

_REFUSED = {
    "nan": "NaN",
    "nan-small": "nan",
    "infinity": "Infinity",
    "minus-infinity": "-Infinity",
    "inf": "inf",
    "leading-zero": "01",
    "leading-zero-negative": "-01",
    "plus": "+1",
    "point-last": "1.",
    "point-first": ".5",
    "point-alone": ".",
    "minus-alone": "-",
    "minus-twice": "--1",
    "exponent-empty": "1e",
    "exponent-sign-alone": "1e+",
    "exponent-point": "1e1.5",
    "point-before-exponent": "1.e1",
    "hexadecimal": "0x1",
    "binary": "0b1",
    "underscore": "1_000",
    "comma-last": "1,",
    "two": "1 2",
    "empty": "",
    "blank": " ",
    "suffix": "1n",
    "arabic-digit": "\u0661",
    "wide-digit": "\uff11",
    "minus-sign": "\u22121",
}


def bits_of(text: str) -> str:
    """Return the bits of the double that Python reads in a text."""
    return struct.pack(">d", float(text)).hex()


def cases() -> Iterator[Case]:
    """Yield all cases."""
    for name, text in _INTEGERS.items():
        yield {"id": f"int-{name}", "text": text, "value": {"int": text}}
    for index, text in enumerate(_FLOATS, 1):
        value = {"float": bits_of(text)}
        yield {"id": f"float-{index:02}", "text": text, "value": value}
    for name, text in _REFUSED.items():
        yield {"id": f"refused-{name}", "text": text, "refused": True}


FLOATS = _FLOATS

"""The model form: a value of a vector, written the same for every language.

`model_of` writes it from NumPy's and Python's own objects, and `native_of` reads it
back. Neither uses the forms that values have on the wire.
"""

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space
from gymnasium.spaces import GraphInstance
from gymnasium.vector import AutoresetMode

from tests.conformance.making.describing import described

Model = dict[str, Any]


class Unsent(NamedTuple):
    """What stands for a value that cannot be sent, where there is no client."""

    repr: str
    type: str


_HEX_DIGITS = {"f2": 4, "f4": 8, "f8": 16}


def float_model(number: float) -> Model:
    """Write a double by its bits, most significant first."""
    return {"float": _bits(number)}


def _bits(number: float) -> str:
    return struct.pack(">d", number).hex()


def model_of(value: Any) -> Model:
    """Write a value in the model form.

    Raises:
        TypeError: There is no model of it.
    """
    match value:
        case None:
            return {"none": None}
        case bool():
            return {"bool": value}
        case AutoresetMode():
            return {"autoreset": value.value}
        case np.generic():
            return {"ns": {"dtype": value.dtype.str, **_content(np.asarray(value))}}
        case np.ndarray() if value.dtype == object:
            items = [model_of(item) for item in value.ravel().tolist()]
            return {"oa": {"shape": list(value.shape), "items": items}}
        case np.ndarray():
            head = {"dtype": value.dtype.str, "shape": list(value.shape)}
            return {"nd": {**head, **_content(value)}}
        case GraphInstance():
            parts = zip(value._fields, value, strict=True)
            return {"graph": {name: model_of(part) for name, part in parts}}
        case int():
            return {"int": str(value)}
        case float():
            return float_model(value)
        case complex():
            return {"complex": [_bits(value.real), _bits(value.imag)]}
        case str():
            return _text(value)
        case bytes():
            return {"bytes": value.hex()}
        case _ if type(value).__name__ == "Unsent":
            return {"unsent": {"repr": value.repr, "type": value.type}}
        case list():
            return {"list": [model_of(item) for item in value]}
        case tuple():
            return {"tuple": [model_of(item) for item in value]}
        case dict():
            pairs = value.items()
            return {"dict": [[model_of(key), model_of(item)] for key, item in pairs]}
        case Space():
            return {"space": described(value)}
    raise TypeError(f"there is no model of {value!r}")


def _text(text: str) -> Model:
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"wtf8": text.encode("utf-8", "surrogatepass").hex()}
    return {"str": text}


def _content(array: Any) -> Model:
    """Write the elements of an array, flat in C order."""
    kind = array.dtype.str[1:]
    if not array.dtype.isnative or kind[0] not in "biuf":
        return {"bytes": array.tobytes().hex()}
    if kind == "b1":
        return {"items": array.ravel().tolist()}
    if kind[0] in "iu":
        return {"items": [str(number) for number in array.ravel().tolist()]}
    digits = _HEX_DIGITS[kind]
    bits = array.ravel().view(f"<u{digits // 2}").tolist()
    return {"items": [f"{each:0{digits}x}" for each in bits]}


def raw_of(content: Model) -> bytes:
    """Return the bytes of an array or a scalar, in C order, as on the wire."""
    if "bytes" in content:
        return bytes.fromhex(content["bytes"])
    dtype, items = content["dtype"], content["items"]
    kind = dtype[1:]
    if kind == "b1":
        return bytes(map(int, items))
    if kind[0] == "f":
        return b"".join(bytes.fromhex(each)[::-1] for each in items)
    size, signed = int(kind[1:]), kind[0] == "i"
    numbers = (int(each) for each in items)
    return b"".join(each.to_bytes(size, "little", signed=signed) for each in numbers)


def native_of(
    model: Model,
    space_of: Callable[[Any], Any] = lambda data: data,
    unsent: Callable[..., Any] = Unsent,
) -> Any:
    """Make the Python object that a model describes.

    Args:
        model: The model.
        space_of: Makes a space from its data; without it, spaces stay data.
        unsent: Makes what stands for a value that cannot be sent.
    """

    def made(part: Model) -> Any:
        return native_of(part, space_of, unsent)

    ((kind, content),) = model.items()
    match kind:
        case "none" | "bool" | "str":
            return content
        case "space":
            return space_of(content)
        case "int":
            return int(content)
        case "float":
            return struct.unpack(">d", bytes.fromhex(content))[0]
        case "complex":
            return complex(*(made({"float": bits}) for bits in content))
        case "wtf8":
            return bytes.fromhex(content).decode("utf-8", "surrogatepass")
        case "bytes":
            return bytes.fromhex(content)
        case "list":
            return [made(item) for item in content]
        case "tuple":
            return tuple(made(item) for item in content)
        case "dict":
            return {made(key): made(item) for key, item in content}
        case "nd":
            array = np.frombuffer(raw_of(content), content["dtype"])
            return array.reshape(content["shape"]).copy()
        case "ns":
            return _scalar(content)
        case "oa":
            objects = np.empty(len(content["items"]), object)
            for index, item in enumerate(content["items"]):
                objects[index] = made(item)
            return objects.reshape(content["shape"])
        case "graph":
            return GraphInstance(**{k: made(part) for k, part in content.items()})
        case "autoreset":
            return AutoresetMode(content)
        case "unsent":
            return unsent(**content)
    raise ValueError(f"there is no model {kind!r}")


def _scalar(content: Model) -> Any:
    raw, dtype = raw_of(content), np.dtype(content["dtype"])
    # Taken out of an array, these would lose the zeros at their end.
    if dtype.kind == "S":
        return np.bytes_(raw)
    if dtype.kind == "U":
        return np.str_(raw.decode("utf-32-le", "surrogatepass"))
    return np.frombuffer(raw, dtype)[0]

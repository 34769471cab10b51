"""Weights and states as bytes: npz without pickle, or safetensors.

The same arrays always give the same bytes, so that their digest names them. Received
bytes need not be trusted: no object is unpickled, and no array becomes larger than the
file declares.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "MAX_WEIGHTS_BYTES",
    "NPZ",
    "SAFETENSORS",
    "Arrays",
    "BadWeights",
    "load_weights",
    "save_weights",
]

#: Media types of the two forms.
NPZ = "application/x-npz"
SAFETENSORS = "application/x-safetensors"
#: Bytes that all arrays together may have by default when they are loaded.
MAX_WEIGHTS_BYTES = 4 << 30

#: Arrays by name.
Arrays = dict[str, npt.NDArray[Any]]

_KINDS = "biufcSUmM"
# The earliest date of a zip file: a real one would change the digest.
_NO_DATE = (1980, 1, 1, 0, 0, 0)
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
_ZIP = b"PK\x03\x04"
_EMPTY_ZIP = b"PK\x05\x06"
_PICKLE = b"\x80"
_SUFFIX = ".npy"
# Size of the number of bytes with which a safetensors file begins.
_SIZE_BYTES = 8


# What zipfile and NumPy raise if a file is damaged.
_DAMAGES = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)


class BadWeights(ValueError):
    """The bytes are not weights, or the values cannot be saved as weights."""


def save_weights(
    arrays: Mapping[str, npt.ArrayLike], form: str = NPZ, *, what: str = "weights"
) -> bytes:
    """Encode arrays by name; equal arrays give equal bytes.

    Args:
        arrays: Arrays, or what NumPy makes arrays of, such as numbers and strings.
        form: `NPZ`, or `SAFETENSORS`, which needs the package ``safetensors``.
        what: What the arrays are, for messages.

    Raises:
        BadWeights: A value is not an array of numbers, booleans or strings.
    """
    if not isinstance(arrays, Mapping):
        raise BadWeights(
            f"{what} are of type {type(arrays).__name__}: expected a dict of arrays by "
            'name, such as {"layer1": array}'
        )
    checked = {name: _checked(what, name, arrays[name]) for name in arrays}
    ordered = dict(sorted(checked.items()))
    if form == NPZ:
        return _save_npz(ordered)
    if form == SAFETENSORS:
        return _save_safetensors(ordered)
    raise ValueError(f"the form is {form!r}: expected {NPZ!r} or {SAFETENSORS!r}")


def load_weights(data: bytes, *, max_bytes: int = MAX_WEIGHTS_BYTES) -> Arrays:
    """Decode the arrays that `save_weights` or ``np.savez`` has written.

    Args:
        data: The bytes of an npz or safetensors file.
        max_bytes: Bytes that all arrays together may have. A packed file that declares
            more is refused before anything is unpacked.

    Raises:
        BadWeights: They are something else, such as a pickle, which is not loaded.
    """
    if data[:4] in (_ZIP, _EMPTY_ZIP):
        try:
            return _load_npz(data, max_bytes)
        except BadWeights:
            raise
        except _DAMAGES as error:
            raise BadWeights(f"the npz file is damaged: {error}") from None
    if data[:1] == _PICKLE:
        raise BadWeights(_pickle_message("a pickle"))
    if data[_SIZE_BYTES : _SIZE_BYTES + 1] == b"{":
        return _load_safetensors(data)
    raise BadWeights(
        f"these {len(data)} bytes are neither npz nor safetensors; they begin with "
        f"{bytes(data[:8])!r}. Publish arrays with Trainer.publish, or bytes made by "
        "save_weights"
    )


def _pickle_message(found: str) -> str:
    return (
        f"these weights are {found}, which can run any program when it is loaded, so "
        "it was not loaded. Publish arrays with Trainer.publish, or bytes made by "
        "save_weights"
    )


def _checked(what: str, name: object, value: npt.ArrayLike) -> npt.NDArray[Any]:
    if not isinstance(name, str) or not name or "\0" in name:
        raise BadWeights(
            f"a name in the {what} is {name!r}: expected a string that is not empty"
        )
    try:
        array = np.asarray(value, order="C")
    except (TypeError, ValueError) as error:
        raise BadWeights(f"{what}[{name!r}] cannot become an array: {error}") from error
    if array.dtype.kind not in _KINDS:
        raise BadWeights(
            f"{what}[{name!r}] has the dtype {array.dtype}: expected numbers, booleans "
            "or strings. Convert it with np.asarray(value, dtype=...)"
        )
    return array


def _save_npz(arrays: Arrays) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(name + _SUFFIX, _NO_DATE)
            # Else the operating system's name is in the file.
            entry.create_system = 3
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    return buffer.getvalue()


def _load_npz(data: bytes, max_bytes: int) -> Arrays:
    arrays: Arrays = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
        declared = sum(entry.file_size for entry in entries)
        if declared > max_bytes:
            raise BadWeights(
                f"the npz file declares {declared} bytes: at most {max_bytes} are "
                "loaded. Give load_weights a larger max_bytes if that is right"
            )
        for entry in entries:
            name = entry.filename.removesuffix(_SUFFIX)
            if name in arrays:
                raise BadWeights(f"the npz file has two arrays named {name!r}")
            _check_entry(entry)
            with archive.open(entry) as file:
                arrays[name] = _read_array(file, name, entry.file_size)
                if file.read(1):
                    raise BadWeights(f"bytes follow the array {name!r}")
    return arrays


def _check_entry(entry: zipfile.ZipInfo) -> None:
    name = entry.filename
    if name.endswith(".pkl"):
        raise BadWeights(_pickle_message("a file of torch.save with a pickle"))
    if not name.endswith(_SUFFIX):
        raise BadWeights(f"the npz file has an entry {name!r}: expected names in .npy")
    if entry.flag_bits & _ENCRYPTED or entry.compress_type not in _PACKINGS:
        raise BadWeights(
            f"the entry {name!r} is encrypted or packed in another way than deflate; "
            "write the file with save_weights or np.savez"
        )


def _read_array(file: IO[bytes], name: str, size: int) -> npt.NDArray[Any]:
    """Read an array of a .npy file, whose header and size must agree."""
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            header = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            header = np.lib.format.read_array_header_2_0(file)
        else:
            raise ValueError(f"version {version} is not supported")
    except (ValueError, TypeError, SyntaxError, RecursionError) as error:
        raise BadWeights(f"the array {name!r} is malformed: {error}") from None
    shape, is_fortran, dtype = header
    if dtype.hasobject:
        raise BadWeights(_pickle_message(f"a file whose array {name!r} is a pickle"))
    if dtype.kind not in _KINDS:
        raise BadWeights(f"the array {name!r} has the dtype {dtype}: expected numbers")
    needed = dtype.itemsize * math.prod(shape)
    left = size - file.tell()
    if min(shape, default=0) < 0 or needed != left:
        raise BadWeights(
            f"the array {name!r} declares the shape {shape} of {dtype}, which is "
            f"{needed} bytes, and has {left}"
        )
    flat = np.empty(math.prod(shape), dtype)
    view = flat.view(np.uint8).data if flat.nbytes else memoryview(b"")
    done = 0
    while done < needed:
        read = file.readinto(view[done:])  # type: ignore[attr-defined]
        if not read:
            raise BadWeights(f"the array {name!r} ends after {done} of {needed} bytes")
        done += read
    return flat.reshape(shape, order="F" if is_fortran else "C")


def _save_safetensors(arrays: Arrays) -> bytes:
    library = _safetensors()
    try:
        data: bytes = library.save(arrays)
    except Exception as error:
        # The library has no common class for refused dtypes.
        raise BadWeights(f"safetensors cannot hold these arrays: {error}") from error
    return data


def _load_safetensors(data: bytes) -> Arrays:
    library = _safetensors()
    try:
        arrays: Arrays = library.load(bytes(data))
    except Exception as error:
        # The library has no common class for malformed files and unknown dtypes.
        raise BadWeights(f"the safetensors file is not read: {error}") from error
    return arrays


def _safetensors() -> Any:
    try:
        from safetensors import numpy as library
    except ImportError as error:
        raise ImportError(
            "weights in the form safetensors need the package safetensors: "
            'pip install "gymnasium-http-client[safetensors]"'
        ) from error
    return library

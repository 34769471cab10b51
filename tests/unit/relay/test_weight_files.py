"""Weights come back unchanged under the same digest; other bytes are refused unread."""

import contextlib
import io
import os
import pickle
import struct
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gym_http_client.relay.weights import (
    NPZ,
    SAFETENSORS,
    BadWeights,
    load_weights,
    save_weights,
)
from tests.support.faults.mutated_messages import mutated, peak

ARRAYS = st.dictionaries(
    st.text(st.characters(exclude_characters="\0\\/", codec="utf-8"), min_size=1),
    hnp.arrays(
        hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0)
    ),
    max_size=4,
)
FORMS = (NPZ, SAFETENSORS)


def assert_equal(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert array.dtype == second[name].dtype
        assert array.shape == second[name].shape
        assert array.tobytes() == second[name].tobytes()


@settings(max_examples=80, deadline=None)
@given(ARRAYS)
def test_arrays_return_unchanged(arrays: dict[str, Any]) -> None:
    assert_equal(load_weights(save_weights(arrays)), arrays)


@settings(max_examples=50, deadline=None)
@given(ARRAYS)
def test_numpy_reads_the_same(arrays: dict[str, Any]) -> None:
    with np.load(io.BytesIO(save_weights(arrays)), allow_pickle=False) as found:
        # zipfile itself changes no name that has no slash.
        assert_equal(dict(found), arrays)


@pytest.mark.parametrize("form", FORMS)
def test_the_same_arrays_are_the_same_bytes(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = np.arange(6, dtype=np.float32).reshape(2, 3)
    saved = save_weights({"w": first, "b": np.ones(3)}, form)
    # Another day, order of names, and order of the array in memory.
    monkeypatch.setattr("time.time", lambda: 2e9)
    other = {"b": np.ones(6)[::2], "w": np.asfortranarray(first)}
    assert save_weights(other, form) == saved
    assert_equal(load_weights(saved), {"b": np.ones(3), "w": first})


def test_numbers_and_texts_become_arrays() -> None:
    loaded = load_weights(save_weights({"episode": 7, "note": "é", "lr": 0.1}))
    assert int(loaded["episode"]) == 7
    assert str(loaded["note"]) == "é"
    assert float(loaded["lr"]) == 0.1


def test_files_of_numpy_are_read(tmp_path: Path) -> None:
    arrays = {"w": np.asfortranarray(np.random.default_rng(0).random((3, 4)))}
    for write in (np.savez, np.savez_compressed):
        write(tmp_path / "file.npz", **arrays)  # type: ignore[operator]
        loaded = load_weights((tmp_path / "file.npz").read_bytes())
        np.testing.assert_array_equal(loaded["w"], arrays["w"])


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        (np.zeros(2), "expected a dict of arrays"),
        ({"w": None}, "w.*has the dtype object"),
        ({"w": [[1], [1, 2]]}, "w.*cannot become an array"),
        ({"big": 2**70}, "big.*has the dtype object"),
        ({1: np.zeros(2)}, "name in the weights is 1"),
        ({"": np.zeros(2)}, "name in the weights is ''"),
        ({"w": np.zeros(1, [("a", "i4")])}, "w.*dtype"),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_what_is_not_an_array_of_numbers_is_refused(
    arrays: Any, words: str, form: str
) -> None:
    with pytest.raises(BadWeights, match=words):
        save_weights(arrays, form)


class Canary:
    """Sets an environment variable when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.putenv, ("RELAY_CANARY", "died")


def npz_of(entries: dict[str, bytes], packing: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packing) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def npy_with_object() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([Canary()], object), allow_pickle=True)
    return buffer.getvalue()


PICKLES = {
    "pickle": pickle.dumps(Canary()),
    "array of objects": npz_of({"w.npy": npy_with_object()}),
    "torch.save": npz_of({"archive/data.pkl": pickle.dumps(Canary())}),
}


@pytest.mark.parametrize("name", PICKLES)
def test_a_pickle_is_refused_and_does_not_run(name: str) -> None:
    ran = []
    sys.addaudithook(lambda event, _: ran.append(event) if "pickle" in event else None)
    with pytest.raises(BadWeights, match=r"pickle.*not loaded.*save_weights"):
        load_weights(PICKLES[name])
    assert not ran


def npy(shape: object, size: int, dtype: str = "<f8") -> bytes:
    header = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (-(10 + len(header) + 1) % 64) + b"\n"
    magic = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
    return magic + header + b"\0" * size


def test_a_bomb_is_refused_by_its_declared_size() -> None:
    bomb = npz_of({"w.npy": npy((2**22,), 2**25)}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 2**17
    with pytest.raises(BadWeights, match=r"declares 33554\d+ bytes: at most 1000000"):
        load_weights(bomb, max_bytes=10**6)


def test_a_bomb_that_declares_less_stops_there() -> None:
    small = npy((8,), 64)
    whole = small + b"\0" * 2**26
    bomb = bytearray(npz_of({"w.npy": whole}, zipfile.ZIP_DEFLATED))
    true, lie = struct.pack("<I", len(whole)), struct.pack("<I", len(small))
    assert bomb.count(true) == 2
    lying = bytes(bomb.replace(true, lie))

    def load() -> None:
        with pytest.raises(BadWeights, match="damaged: Bad CRC-32"):
            load_weights(lying)

    assert peak(load) < 10 * len(lying)


@pytest.mark.parametrize(
    "content",
    [
        npy((2**40, 2**40), 64),
        npy((-1,), 64),
        npy((0, 2**70), 0),
        npy((9,), 64),
        npy((7,), 64),
        npy("x", 64),
        npy((8,), 64, "|O"),
        npy((1,), 64, "|V64"),
        b"\x93NUMPY\x03\x00",
        b"",
        npy((8,), 64)[:20],
    ],
)
def test_arrays_that_declare_another_size_are_refused(content: bytes) -> None:
    with pytest.raises(BadWeights):
        load_weights(npz_of({"w.npy": content}))


@pytest.mark.parametrize("data", [b"", b"hello there", b"\x1f\x8b" * 9, b"PK\x03\x04"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(BadWeights):
        load_weights(data)


def test_names_twice_are_refused() -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("w.npy", npy((1,), 8))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("w.npy", npy((1,), 8))
    with pytest.raises(BadWeights, match="two arrays named 'w'"):
        load_weights(data.getvalue())


SAVED = {form: save_weights({"w": np.arange(50.0)}, form) for form in FORMS}
PACKED = npz_of({"w.npy": npy((8,), 64)}, zipfile.ZIP_DEFLATED)


@settings(max_examples=300, deadline=None)
@given(mutated(st.sampled_from([*SAVED.values(), PACKED])))
def test_damaged_files_are_refused_or_read(data: bytes) -> None:
    with contextlib.suppress(BadWeights), warnings.catch_warnings():
        # NumPy parses headers as Python's literals.
        warnings.simplefilter("ignore")
        arrays = load_weights(data, max_bytes=10**6)
        assert sum(array.nbytes for array in arrays.values()) <= 10**6


def test_without_safetensors_the_error_names_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match=r"pip install .*\[safetensors\]"):
        save_weights({}, SAFETENSORS)
    with pytest.raises(ImportError, match=r"pip install .*\[safetensors\]"):
        load_weights(SAVED[SAFETENSORS])


def test_an_array_is_what_numpy_saves() -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.ones(1))
    assert buffer.getvalue() in save_weights({"w": np.ones(1)})

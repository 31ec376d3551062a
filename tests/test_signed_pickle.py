"""Signed pickles: nothing is unpickled before its signature was checked."""

from __future__ import annotations

import hashlib
import hmac
import pickle
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools import ToolResult, ToolSpec, ToolSpecError, dumps, loads
from ahvn_tools.errors import PickleError, SignatureError
from ahvn_tools.secret_key import SecretKey

KEY = b"0123456789abcdef"
RAN: list[str] = []


def run(what: str) -> str:
    """Leave a trace."""
    RAN.append(what)
    return what


class Canary:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> Any:
        return run, ("unpickled",)


@pytest.fixture(autouse=True)
def _nothing_ran():
    RAN.clear()


def greet(name: str, tone: str = "plain") -> str:
    """Greet a person."""
    return f"{tone}: hello, {name}"


@pytest.mark.parametrize(
    "key",
    [{}, {"key": KEY}, {"key": "a text of 16 chars"}, {"key": "ü" * 8}, {"key": bytes(range(100))}],
    ids=["none", "bytes", "text", "letters", "long"],
)
def test_a_spec_comes_back(key):
    spec = ToolSpec.from_function(greet).bind("tone", default="warm")
    twin = loads(dumps(spec, **key), **key)
    assert (twin.definition, twin(name="Ann")) == (spec.definition, "warm: hello, Ann")


def test_other_values_come_back_too():
    factor = 3
    value = {
        "specs": [ToolSpec.from_function(greet)],
        "result": ToolResult(value=1),
        "times": lambda number: number * factor,
    }
    twin = loads(dumps(value, key=KEY), key=KEY)
    assert twin["specs"][0](name="Ann") == "plain: hello, Ann"
    assert (twin["result"].value, twin["times"](2)) == (1, 6)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_bytes_are_read(kind):
    assert loads(kind(dumps([1], key=KEY)), key=KEY) == [1]
    assert loads(kind(dumps([1]))) == [1]


def test_what_is_written_without_a_key_is_a_pickle():
    assert pickle.loads(dumps([1])) == loads(pickle.dumps([1])) == [1]


def test_signed_data_is_no_pickle():
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads(dumps(Canary(), key=KEY))
    assert not RAN


def refuses(data: Any, message: str, key: Any = KEY) -> None:
    with pytest.raises(SignatureError, match=message) as caught:
        loads(data, **({} if key is None else {"key": key}))
    assert isinstance(caught.value, ToolSpecError)
    assert not RAN


def test_unsigned_data_is_refused_before_anything_is_unpickled():
    for data in (pickle.dumps(Canary()), pickle.dumps(Canary(), protocol=0), dumps(Canary()), b"", b"x", b"\x00"):
        refuses(data, "The data is not signed, so that nothing was unpickled")


def test_signed_data_without_a_key_is_refused_with_the_fix():
    refuses(dumps(Canary(), key=KEY), r"The data is signed: pass the key .*loads\(data, key=…\)", key=None)


def test_another_key_is_refused():
    data = dumps(Canary(), key=KEY)
    for key in (KEY + b"x", KEY[::-1], KEY.decode() + " "):
        refuses(data, "The signature does not fit the data and the key", key=key)
    assert loads(data, key=KEY.decode()) == "unpickled"


def test_cut_data_is_refused_at_every_length():
    data = dumps(Canary(), key=KEY)
    for length in range(len(data)):
        refuses(data[:length], "not signed|in version None|does not fit")


def test_extended_data_is_refused():
    data = dumps(Canary(), key=KEY)
    for more in (b"\x00", b".", data, pickle.dumps(Canary())):
        refuses(data + more, "does not fit")
        refuses(more + data, "not signed|does not fit")


def test_each_changed_byte_is_refused():
    data = dumps(Canary(), key=KEY)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1
        refuses(bytes(changed), "not signed|in version|does not fit")


@given(noise=st.binary(max_size=200), is_header_kept=st.booleans())
def test_noise_is_refused(noise, is_header_kept):
    header = dumps(1, key=KEY)[:26] if is_header_kept else b""
    with pytest.raises(SignatureError):
        loads(header + noise, key=KEY)


def test_another_version_is_refused_even_if_it_is_signed():
    header = dumps(1, key=KEY)[: -len(pickle.dumps(1)) - 32]
    assert header[-1] == 1
    other = header[:-1] + b"\x02"
    payload = pickle.dumps(Canary())
    refuses(
        other + hmac.digest(KEY, other + payload, "sha256") + payload, "signed in version 2, and this release reads 1"
    )


def test_signatures_for_other_purposes_are_refused():
    payload = pickle.dumps(Canary())
    header = dumps(1, key=KEY)[: -len(pickle.dumps(1)) - 32]
    for signature in (
        hmac.digest(KEY, payload, "sha256"),
        hashlib.sha256(header + payload).digest(),
        bytes.fromhex(SecretKey.create(KEY).digest("approval", {})),
        bytes(32),
    ):
        refuses(header + signature + payload, "does not fit")
    signed = header + hmac.digest(KEY, header + payload, "sha256") + payload
    assert loads(signed, key=KEY) == "unpickled"


@pytest.mark.parametrize("key", [None, "", b"", "short", b"x" * 15, 1234567890123456, ["x"] * 16], ids=repr)
def test_a_key_that_is_too_short_or_none_is_refused(key):
    """A variable that is not set must not turn the check off."""
    with pytest.raises(ToolSpecError, match="A key is a text or bytes of at least 16 bytes"):
        dumps(1, key=key)
    with pytest.raises(ToolSpecError, match="A key is a text or bytes of at least 16 bytes"):
        loads(dumps(1, key=KEY), key=key)
    with pytest.raises(ToolSpecError, match="A key is a text or bytes of at least 16 bytes"):
        loads(pickle.dumps(Canary()), key=key)
    assert not RAN


@pytest.mark.parametrize("data", ["tools.py", None, 3, [1]], ids=repr)
def test_what_is_no_bytes_is_refused_and_names_load(data):
    with pytest.raises(TypeError, match=r"loads takes the bytes of dumps, not \w+; ahvn_tools\.load reads sources"):
        loads(data)


def test_no_signed_pickle_contains_a_secret_or_the_key():
    spec = ToolSpec.from_function(greet).bind("tone", default="canary-7f3a9c", secret=True)
    data = dumps(spec, key=KEY)
    assert b"canary-7f3a9c" not in data
    assert KEY not in data


def test_large_data_is_not_copied_when_its_signature_is_checked():
    import tracemalloc

    size = 16_000_000
    data = dumps(bytes(size), key=KEY)
    tracemalloc.start()
    try:
        assert loads(data, key=KEY) == bytes(size)
        assert tracemalloc.get_traced_memory()[1] < 2.5 * size  # the value, and the one that it is compared with
        tracemalloc.reset_peak()
        refuses(data, "does not fit", key=KEY[::-1])
        assert tracemalloc.get_traced_memory()[1] < size / 2
    finally:
        tracemalloc.stop()


def test_what_cannot_be_pickled_is_an_error_that_names_it():
    with pytest.raises(
        PickleError, match=r"A dict cannot be pickled \(TypeError\): remove what is open or running in it"
    ):
        dumps({"lock": threading.Lock()}, key=KEY)
    spec = ToolSpec.from_function(greet)
    spec.state["lock"] = threading.Lock()
    with pytest.raises(PickleError, match="State key 'lock' of 'greet'"):
        dumps([spec], key=KEY)

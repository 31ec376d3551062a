"""Pickles with a signature, which is checked before anything is unpickled: unpickling executes code."""

from __future__ import annotations

import pickle
from typing import Any, Final

from ahvn_tools.errors import PickleError, SignatureError, ToolSpecError
from ahvn_tools.execution.pickling import dumps as to_pickle
from ahvn_tools.secret_key import SecretKey
from ahvn_tools.state import UNSET

VERSION: Final = 1
"""The version of the header and of how the signature is made."""

_MAGIC: Final = b"\x00ahvn_tools.signed_pickle\x00"
"""How signed data begins. No pickle begins with a zero byte, so that `pickle.loads` refuses signed data."""

_HEADER: Final = _MAGIC + bytes([VERSION])
_SIGNATURE_BYTES: Final = 32


def dumps(value: Any, *, key: str | bytes = UNSET) -> bytes:  # type: ignore[assignment]  # None is an error
    """Pickle a spec, or a value with specs in it, and sign the pickle with HMAC-SHA-256 if there is a `key`.

    The pickle has functions that cannot be imported by value, as cloudpickle makes it, and of a spec no secret value.
    A signature is no encryption: whoever has the bytes can read the state in them. A key has at least 16 bytes.

    Raises PickleError for a value that cannot be pickled, ToolSpecError for a key that is too short, or None.

    >>> from ahvn_tools import ToolSpec, dumps, loads
    >>> key = b"0123456789abcdef0123456789abcdef"
    >>> data = dumps(ToolSpec.from_function(abs, description="Return the distance to 0."), key=key)
    >>> loads(data, key=key).call(-3)
    3
    >>> loads(data[:-1], key=key)
    Traceback (most recent call last):
      ...
    ahvn_tools.errors.SignatureError: The signature does not fit the data and the key: nothing was unpickled...
    """
    secret_key = _to_secret_key(key)
    try:
        payload = to_pickle(value)
    except ToolSpecError:
        raise
    except Exception as error:  # a foreign __reduce__ may raise anything
        raise PickleError(
            f"A {type(value).__name__} cannot be pickled ({type(error).__name__}): remove what is open or running in "
            "it, such as connections, locks and generators."
        ) from error
    return payload if secret_key is None else b"".join((_HEADER, secret_key.sign(_HEADER, payload), payload))


def loads(data: bytes, *, key: str | bytes = UNSET) -> Any:  # type: ignore[assignment]  # None is an error
    """Return what `dumps` pickled. Unpickling executes code: without a `key`, load only data that you trust.

    With a key, the signature is checked first, and unsigned data is refused. Raises SignatureError, before anything is
    unpickled: for data that is unsigned, changed, cut, extended or signed with another key or in another version, and
    for signed data without a key. Raises ToolSpecError for a key that is too short, or None, as a variable that is not
    set would be. Raises what unpickling raises, such as ModuleNotFoundError.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"loads takes the bytes of dumps, not {type(data).__name__}; ahvn_tools.load reads sources.")
    unchanging = bytes(data)  # a copy that nobody else can change after the check
    secret_key = _to_secret_key(key)
    if secret_key is not None:
        payload = _require_signature(unchanging, secret_key)
        return pickle.loads(payload)  # noqa: S301  # signed with the caller's key
    if unchanging.startswith(_MAGIC):
        raise SignatureError("The data is signed: pass the key that it was signed with, loads(data, key=…).")
    return pickle.loads(unchanging)  # noqa: S301  # trusted by the caller


def _to_secret_key(key: Any) -> SecretKey | None:
    if key is UNSET:
        return None
    return SecretKey.create(b"" if key is None else key, "key")  # None would be a random one


def _require_signature(data: bytes, key: SecretKey) -> memoryview:
    """Return the pickle inside of signed data, without a copy of it. Raises SignatureError."""
    if not data.startswith(_MAGIC):
        raise SignatureError(
            "The data is not signed, so that nothing was unpickled: sign it with dumps(value, key=…). Without key=, "
            "loads trusts any data."
        )
    version = data[len(_MAGIC) : len(_HEADER)]
    if version != bytes([VERSION]):
        raise SignatureError(
            f"The data is signed in version {version[0] if version else None}, and this release reads {VERSION}: sign "
            "it with this release."
        )
    end = len(_HEADER) + _SIGNATURE_BYTES
    signature, payload = data[len(_HEADER) : end], memoryview(data)[end:]
    if not key.is_signature(signature, _HEADER, payload):
        raise SignatureError(
            "The signature does not fit the data and the key: nothing was unpickled. Pass the key that it was signed "
            "with, and the data as it was written."
        )
    return payload

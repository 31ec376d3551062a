"""Encoders: how values of other libraries' classes become JSON or content.

`numpy.py`, `frames.py`, `images.py` and `binary.py` have one mapping each, `ENCODERS`: from the module and the name of
a class to the function that encodes its values. They import no library.
"""

from ahvn_tools.encoders.registry import register_encoder

__all__ = ["register_encoder"]

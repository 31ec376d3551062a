"""Names that are taken for each other: by models, by people, or by both."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

_LOOK_ALIKES: Final = str.maketrans(
    "аеорсухіјѕԁһӏԛԝАВЕКМНОРСТУХІЈЅαοιρυνκτΑΒΕΖΗΙΚΜΝΟΡΤΥΧıłØøðđ",
    "aeopcyxijsdhlqwabekmhopctyxijsaoipuvktabezhikmnoptyxilOodd",
)
"""Letters of other alphabets, as the Latin ones that they look like."""
_SEPARATORS: Final = re.compile(r"[\s._\-/:]+")


def to_skeleton(name: str) -> str:
    """Return what is left of a name without case, separators and look-alikes; similar names have the same.

    >>> to_skeleton("Get-Item") == to_skeleton("get_item") == to_skeleton("gеt.item")  # the last with a Cyrillic e
    True
    """
    normal = unicodedata.normalize("NFKC", name).translate(_LOOK_ALIKES)
    return _SEPARATORS.sub("", normal.casefold()) or name


def find_similar(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each name that is similar to an earlier one, with that one."""
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault(to_skeleton(name), name)
        if other != name:
            yield name, other

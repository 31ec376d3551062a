"""numpy, pandas and polars, Pillow and matplotlib: their values as JSON data, as texts or as MCP image blocks."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ahvn_tools.encoders.binary import encode_bytes
from ahvn_tools.errors import INVALID_RESULT, InvalidResultError
from ahvn_tools.json_types import JsonObject


def encode_scalar(scalar: Any) -> Any:
    """Return a scalar as Python's own value; a time without a value (NaT) is None."""
    if scalar.dtype.kind in "mM":
        return _with_python_times(scalar).item()
    value = scalar.item()
    return float(value) if type(value) is type(scalar) else value  # Python has no longer float


def encode_array(array: Any) -> Any:
    """Return the items of an array as nested lists; one without dimensions as its only item."""
    return _with_python_times(array).tolist()


def _with_python_times(values: Any) -> Any:
    """Return times in microseconds: of finer ones numpy makes integers."""
    kind = values.dtype.kind
    return values.astype({"m": "timedelta64[us]", "M": "datetime64[us]"}[kind]) if kind in "mM" else values


MAX_ROWS: Final = 100
"""A frame with more rows is cut."""

MAX_CELLS: Final = 10_000
"""A frame with many columns is cut after fewer rows, so that there are no more cells than this; one row remains."""

_PANDAS_MISSING: Final = frozenset({"NaTType", "NAType"})


def encode_pandas(frame: Any) -> Any:
    """Return the records of a pandas DataFrame. An index other than the numbers of the rows is part of them."""
    index = frame.index
    is_numbered = type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1) and index.name is None
    columns = [*map(str, frame.columns)]
    names = [] if is_numbered else [_index_name(name, level) for level, name in enumerate(index.names)]
    head = frame.head(_row_limit(len(names) + len(columns)))
    rows: Iterable[Any] = head.itertuples(index=False, name=None) if columns else ((),) * len(head)
    if names:
        keys = (key if isinstance(key, tuple) and len(names) > 1 else (key,) for key in head.index)
        rows = ((*key, *row) for key, row in zip(keys, rows, strict=True))
    return _to_records([*names, *columns], rows, len(frame))


def encode_polars(frame: Any) -> Any:
    """Return the records of a polars DataFrame."""
    return _to_records([*frame.columns], frame.head(_row_limit(frame.width)).iter_rows(), frame.height)


def encode_series(series: Any) -> Any:
    """Return a Series of pandas or polars as the records of a frame with this column."""
    frame = series.to_frame()
    return encode_polars(frame) if hasattr(frame, "iter_rows") else encode_pandas(frame)


def _index_name(name: Any, level: int) -> str:
    if name is not None:
        return str(name)
    return f"index_{level}" if level else "index"


def _row_limit(column_count: int) -> int:
    return max(1, min(MAX_ROWS, MAX_CELLS // max(1, column_count)))


def _to_records(columns: list[str], rows: Iterable[Any], row_count: int) -> list[JsonObject] | JsonObject:
    """Return the records; of a cut frame an object that says so, because a list would look complete."""
    if len({*columns}) < len(columns):
        raise InvalidResultError(
            INVALID_RESULT,
            explanation="The tool returned a frame whose column or index names are not unique; rename them.",
        )
    records = [dict(zip(columns, map(_encode_cell, row), strict=True)) for row in rows]
    if len(records) == row_count:
        return records
    note = f"Only the first {len(records)} of {row_count} rows are shown."
    return {"records": records, "row_count": row_count, "note": note}


def _encode_cell(cell: Any) -> Any:
    """Return a cell as JSON or as a value that has a JSON form; a missing value is None."""
    if isinstance(cell, bytes):
        return encode_bytes(cell)
    is_missing = type(cell).__name__ in _PANDAS_MISSING or (isinstance(cell, float) and cell != cell)  # noqa: PLR0124  # NaN
    return None if is_missing else cell


_PNG_MODES = frozenset({"1", "L", "LA", "I;16", "P", "RGB", "RGBA"})


def encode_pillow(image: Any) -> Any:
    """Return an image block: a JPEG of what was read from one, else a PNG."""
    is_photo = image.format == "JPEG" and image.mode in {"L", "RGB"}
    writable = image if image.mode in _PNG_MODES else image.convert(_writable_mode(image))
    data = io.BytesIO()
    writable.save(data, format="JPEG" if is_photo else "PNG")
    return image_block(data.getvalue(), "image/jpeg" if is_photo else "image/png")


def encode_figure(figure: Any) -> Any:
    """Return an image block with the figure as a PNG. The figure stays open."""
    data = io.BytesIO()
    figure.savefig(data, format="png")
    return image_block(data.getvalue(), "image/png")


def _writable_mode(image: Any) -> str:
    """Return the mode of a PNG that keeps most of an image in another mode."""
    if image.mode == "I":
        return "I;16"
    return "RGBA" if "A" in image.getbands() else "RGB"


def image_block(data: bytes, mime_type: str) -> Any:
    """Return an MCP image block."""
    from mcp_types import ImageContent

    return ImageContent(type="image", data=base64.b64encode(data).decode(), mime_type=mime_type)


IMAGE_ENCODERS: Final[Mapping[tuple[str, str], Callable[[Any], Any]]] = {
    ("PIL.Image", "Image"): encode_pillow,
    ("matplotlib.figure", "FigureBase"): encode_figure,
}
"""From the module and the name of a class to the function that encodes its values as content."""

ENCODERS: Final[Mapping[tuple[str, str], Callable[[Any], Any]]] = {
    ("numpy", "generic"): encode_scalar,
    ("numpy", "ndarray"): encode_array,
    ("pandas", "DataFrame"): encode_pandas,
    ("pandas", "Series"): encode_series,
    ("polars", "DataFrame"): encode_polars,
    ("polars", "Series"): encode_series,
    **IMAGE_ENCODERS,
}
"""The same for all classes."""

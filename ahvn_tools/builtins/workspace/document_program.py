"""The process that reads a picture or a PDF file from stdin and writes lines of JSON to stdout.

It is started by its path, without the packages of the host (`python -I -S`): it imports the standard library, and
Pillow or pypdfium2 from the folders in its arguments.
"""

from __future__ import annotations

import base64
import io
import json
import sys
from typing import Any, BinaryIO, Final

_FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
"""Formats whose decoders start no program and load no other file."""
_KEPT_FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP")
"""Formats that models read."""
_KEPT_MODES: Final = ("1", "L", "LA", "P", "RGB", "RGBA")
_ORIENTATION: Final = 0x0112
_LYING: Final = (5, 6, 7, 8)
"""Orientations in which the width of the file is the height of the picture."""
_WRONG_PASSWORD: Final = 4
_HEADING_CHARS: Final = 10
"""The shortest heading of a page, so that a file that says it has billions of pages ends, too."""


def main() -> None:
    """Answer the request in the first argument: a line that says that it has started, then one for each part."""
    request = json.loads(sys.argv[1])
    sys.path += sys.argv[2:]
    try:
        if request["kind"] == "image":
            write(read_image(sys.stdin.buffer, **request["options"]))
        else:
            read_pages(sys.stdin.buffer, **request["options"])
    except MemoryError:
        write({"error": "needs too much memory to read"})
    except Exception:  # noqa: BLE001 - decoders raise anything for a damaged file
        write({"error": "is damaged, or not complete"})


def write(reply: dict[str, Any]) -> None:
    """Write a line of JSON."""
    print(json.dumps(reply), flush=True)  # noqa: T201 - the reply to the host


def read_image(file: BinaryIO, max_pixels: int, max_edge: int, max_bytes: int) -> dict[str, Any]:
    """Return the picture as it is, or as a smaller PNG or JPEG file."""
    from PIL import Image, UnidentifiedImageError

    Image.init()  # `open` knows only some formats before
    write({"started": True})
    Image.MAX_IMAGE_PIXELS = None  # checked below
    try:
        image = Image.open(file, formats=_FORMATS)
    except UnidentifiedImageError:
        formats = "is damaged, or no picture in the format PNG, JPEG, GIF, WebP, BMP or TIFF"
        return {"error": f"{formats}. An SVG picture is text: read it with read_file"}
    width, height = image.size
    if width * height > max_pixels:
        return {"error": f"has {width:,} x {height:,} pixels. Pictures of up to {max_pixels:,} pixels can be read"}
    format_name, is_animated = image.format, bool(getattr(image, "is_animated", False))
    image.draft(None, (max_edge, max_edge))  # a large JPEG file is decoded smaller
    image.load()
    orientation = image.getexif().get(_ORIENTATION, 1)
    file.seek(0)
    data, mime_type = file.read(max_bytes + 1), f"image/{str(format_name).lower()}"
    is_kept = format_name in _KEPT_FORMATS and image.mode in _KEPT_MODES and not is_animated and orientation == 1
    if not is_kept or max(width, height) > max_edge or len(data) > max_bytes:
        image = smaller(image, max_edge)
        data, mime_type = encoded(image, is_photo=format_name in ("JPEG", "MPO"), max_bytes=max_bytes)
    return {
        "format": format_name, "size": (height, width) if orientation in _LYING else (width, height),
        "shown": image.size, "is_first_frame": is_animated, "mime_type": mime_type,
        "data": base64.b64encode(data).decode(),
    }  # fmt: skip


def smaller(image: Any, max_edge: int) -> Any:
    """Return the picture upright, in a mode of PNG files, with edges of at most so many pixels."""
    from PIL import ImageOps

    if image.mode.startswith("I"):  # 16 bits
        image = image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    elif image.mode not in ("L", "RGB", "RGBA"):
        has_alpha = "A" in image.getbands() or "transparency" in image.info
        image = image.convert("RGBA" if has_alpha else "RGB")
    image.thumbnail((max_edge, max_edge))
    return ImageOps.exif_transpose(image)


def encoded(image: Any, *, is_photo: bool, max_bytes: int) -> tuple[bytes, str]:
    """Return a PNG file; a JPEG file of a photograph, and of what would be too large as a PNG file."""
    from PIL import Image

    data = io.BytesIO()
    if not is_photo:
        image.save(data, "PNG")
        if data.tell() <= max_bytes:
            return data.getvalue(), "image/png"
    if image.mode == "RGBA":
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    for quality in (85, 60, 30):
        data = io.BytesIO()
        image.convert("RGB").save(data, "JPEG", quality=quality)
        if data.tell() <= max_bytes:
            break
    return data.getvalue(), "image/jpeg"


def read_pages(file: BinaryIO, start_page: int, end_page: int | None, start_character: int, max_chars: int) -> None:
    """Write the number of pages, then the text of each page until the texts have so many characters."""
    import pypdfium2

    write({"started": True})
    try:
        document = pypdfium2.PdfDocument(file)
        count = len(document)
    except pypdfium2.PdfiumError as error:
        is_encrypted = error.err_code == _WRONG_PASSWORD
        write({"error": "is encrypted and needs a password" if is_encrypted else "is damaged, or no PDF file"})
        return
    write({"pages": count})
    size, dropped = 0, start_character - 1
    for index in range(start_page - 1, min(end_page or count, count)):
        try:
            text = page_text(document[index])[dropped : dropped + max_chars + 1]
        except pypdfium2.PdfiumError:
            text = None
        write({"page": index + 1, "text": text})
        dropped = 0
        size += len(text or "") + _HEADING_CHARS
        if size > max_chars:
            return


def page_text(page: Any) -> str:
    """Return the text of a page with line feeds, and with hyphens where PDFium marks one at the end of a line."""
    try:
        text: str = page.get_textpage().get_text_bounded()
    finally:
        page.close()
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\ufffe", "-").replace("\x02", "-").replace("\0", "")


if __name__ == "__main__":
    main()

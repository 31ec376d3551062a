"""The tools that read pictures and PDF files."""

from __future__ import annotations

import base64
import io
import os
import re
import struct
import sys
import zlib

import pytest
from PIL import Image

IMAGE, PDF = "read_image", "read_pdf"


def picture(image, format_name="PNG", **options):
    data = io.BytesIO()
    image.save(data, format_name, **options)
    return data.getvalue()


def shown(desk, name):
    """Return the text, the media type and the picture of a result."""
    result = desk.session.exec(IMAGE, {"uri": name})
    assert not result.is_error, result.text
    text, image = result.content
    data = base64.b64decode(image.data)
    return text.text, image.mime_type, data, Image.open(io.BytesIO(data))


def pdf(pages, trailer=b""):
    """Return a PDF file with a list of lines for each page."""
    count = len(pages)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(b"%d 0 R" % (4 + 2 * n) for n in range(count)), count),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, lines in enumerate(pages):
        text = b"BT /F1 12 Tf 50 750 Td 14 TL %s ET" % b" ".join(b"(%s) Tj T*" % line.encode() for line in lines)
        resources = b"/MediaBox [0 0 600 800] /Resources << /Font << /F1 3 0 R >> >>"
        objects.append(b"<< /Type /Page /Parent 2 0 R %s /Contents %d 0 R >>" % (resources, 5 + 2 * number))
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(text), text))
    data, places = bytearray(b"%PDF-1.4\n"), []
    for number, each in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table)
    end = b"trailer << /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer, len(data))
    return bytes(data) + head + end


def test_a_small_picture_keeps_its_bytes(desk):
    data = picture(Image.new("RGB", (40, 30), "red"))
    desk.write("a.png", data)
    text, mime_type, content, _ = shown(desk, "a.png")
    assert (text, mime_type, content) == ("a.png: PNG, 40 x 30 pixels", "image/png", data)


def test_a_large_photograph_is_made_smaller_and_upright(desk):
    exif = Image.Exif()
    exif[0x0112] = 6
    desk.write("a.jpg", picture(Image.new("RGB", (3200, 1600), "blue"), "JPEG", exif=exif))
    text, mime_type, _, image = shown(desk, "a.jpg")
    assert text == "a.jpg: JPEG, 1600 x 3200 pixels, shown with 784 x 1568 pixels"
    assert (mime_type, image.size) == ("image/jpeg", (784, 1568))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("image", "options", "mime_type", "mode"),
    [
        pytest.param(Image.new("CMYK", (40, 30)), {"format_name": "JPEG"}, "image/jpeg", "RGB", id="CMYK"),
        pytest.param(Image.new("I;16", (40, 30), 40_000), {}, "image/png", "L", id="16 bits"),
        pytest.param(Image.new("RGBA", (40, 30)), {"format_name": "TIFF"}, "image/png", "RGBA", id="TIFF"),
        pytest.param(Image.new("RGB", (40, 30)), {"format_name": "BMP"}, "image/png", "RGB", id="BMP"),
        pytest.param(Image.new("RGB", (40, 30)), {"format_name": "WEBP"}, "image/webp", "RGB", id="WebP"),
        pytest.param(
            Image.frombytes("RGB", (1500, 1500), os.urandom(6_750_000)), {}, "image/jpeg", "RGB", id="too many bytes"
        ),
        pytest.param(
            Image.new("L", (40, 30)),
            {"format_name": "GIF", "save_all": True, "append_images": [Image.new("L", (40, 30), 200)]},
            "image/png", "RGB", id="animation",
        ),
        pytest.param(
            Image.new("RGB", (40, 30)),
            {"format_name": "MPO", "save_all": True, "append_images": [Image.new("RGB", (40, 30))]},
            "image/jpeg", "RGB", id="photograph of two pictures",
        ),
    ],
)  # fmt: skip
def test_what_models_do_not_read_is_converted(desk, image, options, mime_type, mode):
    desk.write("a", picture(image, **options))
    text, found, content, result = shown(desk, "a")
    assert (found, result.mode) == (mime_type, mode)
    assert getattr(result, "n_frames", 1) == 1
    assert len(content) <= 3_500_000
    assert ("the first of several frames" in text) == ("append_images" in options)


def png_of(width, height):
    """Return a PNG file that says that it has so many pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(1_000_000))) + chunk(b"IEND", b"")


NOISE = picture(Image.frombytes("RGB", (300, 300), os.urandom(270_000)))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (NOISE[:100_000], "is damaged, or not complete"),
        pytest.param(
            png_of(2**31 - 1, 2**31 - 1), "Pictures of up to 100,000,000 pixels", marks=pytest.mark.exhaustive
        ),
        pytest.param(png_of(9_000, 11_000), "is damaged, or not complete", marks=pytest.mark.exhaustive),
        pytest.param(b"", "is damaged, or no picture in the format PNG", marks=pytest.mark.exhaustive),
        pytest.param(b"<svg/>", "An SVG picture is text: read it with read_file.", marks=pytest.mark.exhaustive),
        pytest.param(b"%!PS-Adobe-3.0 EPSF-3.0\n", "no picture in the format PNG", marks=pytest.mark.exhaustive),
    ],
    ids=["cut", "billions of pixels", "fewer pixels than it says", "empty", "a vector picture", "a program"],
)
def test_a_bad_picture_is_an_error_with_its_reason(desk, data, reason):
    desk.write("a.png", data)
    assert reason in desk.error(IMAGE, uri="a.png")


def test_the_text_of_a_pdf_file_is_read_by_pages(desk):
    desk.write("a.pdf", pdf([["tea", "is hot"], [], ["last"]]))
    assert desk.call(PDF, uri="a.pdf") == (
        "Page 1 of 3:\ntea\nis hot\n\nPage 2 of 3:\n(There is no text on this page. It may be a picture.)\n\n"
        "Page 3 of 3:\nlast"
    )
    assert desk.call(PDF, uri="a.pdf", start_page=1, end_page=1) == "Page 1 of 3:\ntea\nis hot"
    error = desk.error(PDF, uri="a.pdf", start_page=4)
    assert error == "There is no page 4 in 'a.pdf': the file has only 3 pages."


def test_all_of_a_long_pdf_file_can_be_read_as_the_notes_say(make_desk):
    desk = make_desk(max_output_chars=150)
    desk.write("a.pdf", pdf([["first page"], ["0123456789"] * 15, ["last page"]]))
    read = [desk.call(PDF, uri="a.pdf")]
    while "Go on with" in read[-1]:
        places = dict(re.findall(r"(start_page|start_character)=(\d+)", read[-1]))
        read.append(desk.call(PDF, uri="a.pdf", **{name: int(number) for name, number in places.items()}))
    assert read[0] == "Page 1 of 3:\nfirst page\n\n(The result would be too long. Go on with start_page=2.)"
    assert read[1].endswith("(The page is longer. Go on with start_page=2, start_character=151.)")
    digits = [line for line in "\n".join(read).split("\n") if line.isdigit()]
    assert "".join(digits) == "0123456789" * 15
    assert read[-1].endswith("last page")


def compressed_page():
    """Return a PDF file with a page that becomes very large when it is read."""
    content = zlib.compress(b"BT /F1 12 Tf 9 700 Td " + b"(a) Tj " * 3_000_000, 1)
    stream = b"<< /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream\n" % (len(content), content)
    return re.sub(rb"(?s)(5 0 obj\n).*?(?=endobj)", lambda found: found[1] + stream, pdf([["a"]]))


ENCRYPTED = b"/Encrypt << /Filter /Standard /V 1 /R 2 /O <%s> /U <%s> /P -4 >> /ID [<00><00>]" % (
    b"ab" * 32,
    b"cd" * 32,
)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (lambda: pdf([["secret"]], ENCRYPTED), "'a.pdf' is encrypted and needs a password."),
        pytest.param(
            lambda: pdf([["tea"]] * 50)[:3_000], "'a.pdf' is damaged, or no PDF file.", marks=pytest.mark.exhaustive
        ),
        pytest.param(
            compressed_page,
            "Page 1 of 'a.pdf' takes too much time or memory to read. Read other pages.",
            marks=[
                pytest.mark.exhaustive,
                pytest.mark.skipif(sys.platform == "darwin", reason="macOS does not enforce the limit of memory"),
            ],
        ),
    ],
    ids=["encrypted", "cut", "large when it is read"],
)
def test_a_bad_pdf_file_is_an_error_with_its_reason(desk, monkeypatch, data, reason):
    monkeypatch.setattr("ahvn_tools.builtins.workspace.documents._MEMORY_BYTES", 400_000_000)
    desk.write("a.pdf", data())
    assert desk.error(PDF, uri="a.pdf") == reason


@pytest.mark.exhaustive
def test_the_last_of_ten_thousand_pages_is_read(desk):
    desk.write("a.pdf", pdf([["tea"]] * 10_000))
    assert desk.call(PDF, uri="a.pdf", start_page=10_000) == "Page 10000 of 10000:\ntea"


@pytest.mark.parametrize("tool", [IMAGE, pytest.param(PDF, marks=pytest.mark.exhaustive)])
def test_a_file_that_takes_too_long_is_an_error(desk, monkeypatch, tool):
    monkeypatch.setattr("ahvn_tools.builtins.workspace.documents.SECONDS", 0.001)
    desk.write("a.png", NOISE)
    assert desk.error(tool, uri="a.png").startswith("'a.png' takes too much time or memory to read.")


@pytest.mark.parametrize("max_bytes", [10_000_000, 100], ids=["whole", "by parts"])
def test_tools_for_texts_name_the_tool_that_reads_a_file(make_desk, max_bytes):
    desk = make_desk(max_bytes=max_bytes)
    desk.write("a.png", NOISE)
    desk.write("a.pdf", b"%PDF-1.4\n\0\1\2" + bytes(200))
    desk.write("a.zip", b"PK\3\4\0" + bytes(200))
    for tool in ("read_file", "view_text_file"):
        assert desk.error(tool, uri="a.png").endswith(" Read it with read_image.")
        assert desk.error(tool, uri="a.pdf").endswith(" Read it with read_pdf.")
        assert "Read it with" not in desk.error(tool, uri="a.zip")


@pytest.mark.parametrize("tool", [IMAGE, PDF])
def test_documents_are_read_in_the_folders_only(desk, tmp_path, tool):
    (tmp_path / "secret.png").write_bytes(NOISE)
    (desk.folder / "link.png").symlink_to(tmp_path / "secret.png")
    assert "outside" in desk.error(tool, uri="../secret.png")
    assert "outside" in desk.error(tool, uri="link.png")
    assert desk.error(tool, uri="b.png").startswith("There is no file or folder 'b.png'.")


@pytest.mark.parametrize(("tool", "module"), [(IMAGE, "PIL"), (PDF, "pypdfium2")])
def test_without_the_extra_the_error_names_it(desk, monkeypatch, tool, module):
    monkeypatch.setitem(sys.modules, module, None)
    desk.write("a", NOISE)
    assert desk.error(tool, uri="a").endswith('needs `pip install "ahvn-tools[documents]"` where the tool runs.')

"""Build the site of docs/ into the folder `site`: `python -m tests.site`. It needs the extra `docs`.

A dead link, a missing anchor and a missing name in an API page are errors. The site also gets each page as Markdown
apart from the API pages, `llms.txt` with a list of all pages, and `llms-full.txt` with all texts.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]

CONFIG = ".mkdocs.yml"


class _Loader(yaml.SafeLoader):
    """Reads the configuration without the functions in it."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda _loader, _suffix, _node: None)


def read_config(root: Path = ROOT) -> dict[str, Any]:
    """Return the configuration of the site."""
    config: dict[str, Any] = yaml.load((root / CONFIG).read_text(encoding="utf-8"), _Loader)
    return config


def pages_of(nav: list[Any]) -> Iterator[str]:
    """Yield the pages in a part of the navigation, in order."""
    for item in nav:
        if isinstance(item, str):
            yield item
        else:
            for target in item.values():
                yield from [target] if isinstance(target, str) else pages_of(target)


def summary_of(text: str) -> tuple[str, str]:
    """Return the title of a page, and its first paragraph of prose in one line."""
    title, *blocks = text.strip().split("\n\n")
    prose = [block for block in blocks if block[:1].isalpha() or block[:1] in "`*"]
    return title.removeprefix("# "), " ".join(prose[0].split()) if prose else ""


def write_texts(root: Path, site: Path) -> None:
    """Write each page as Markdown, and the two files for models."""
    config = read_config(root)
    lists, texts = [], []
    for section in config["nav"]:
        ((name, target),) = section.items()
        lines = []
        for page in [target] if isinstance(target, str) else pages_of(target):
            text = (root / "docs" / page).read_text(encoding="utf-8")
            title, summary = summary_of(text)
            if "\n::: " in text:  # its docstrings are only in the HTML
                lines.append(f"- [{title} (HTML)]({page.removesuffix('.md')}/index.html): {summary}")
                continue
            (site / page).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / "docs" / page, site / page)
            lines.append(f"- [{title}]({page}): {summary}")
            texts.append(f"<!-- {page} -->\n\n{text.strip()}\n")
        lists.append(f"## {name}\n\n" + "\n".join(lines))
    head = f"# {config['site_name']}\n\n> {config['site_description']}"
    (site / "llms.txt").write_text("\n\n".join([head, *lists]) + "\n", encoding="utf-8")
    (site / "llms-full.txt").write_text("\n\n".join([head, *texts]), encoding="utf-8")


def build(root: Path = ROOT) -> Path:
    """Build the site of a project and return its folder. Raises CalledProcessError for what is wrong in a page."""
    site = root / read_config(root)["site_dir"]
    shutil.rmtree(site, ignore_errors=True)
    subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", CONFIG], cwd=root, check=True
    )
    write_texts(root, site)
    return site


if __name__ == "__main__":
    folder = build()
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    pages = len(list(folder.rglob("*.html")))
    print(f"{folder.relative_to(ROOT)}: {pages} pages, {size / 1e6:.1f} MB")

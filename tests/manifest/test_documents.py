"""The files and sessions of docs/how-to/manifest.md and profiles.md, and the tables of manifest-keys.md, are true."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from ahvn_tools import load
from ahvn_tools.manifest import model
from ahvn_tools.manifest.middleware_table import MIDDLEWARE

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "how-to" / "manifest.md").read_text(encoding="utf-8")
PAGES = [PAGE, (DOCS / "how-to" / "profiles.md").read_text(encoding="utf-8")]

MODELS = [
    model.Manifest, model.Tool, model.GroupModel, model.Bind, model.ApprovalModel, model.Search, model.ModelTool,
    model.SourceModel, model.LocalOptions, model.ServerSourceModel, model.OpenAPISource, model.ToolsetModel,
    model.SkillsModel,
]  # fmt: skip

SESSIONS = ["".join(re.findall(r"^```text\n(>>> .*?)^```$", page, re.DOTALL | re.MULTILINE)) for page in PAGES]


@pytest.fixture
def page_folder(folder: Path) -> Path:
    """Write the files of the pages to the current folder."""
    block = r"<!-- ([\w/.]+\.(?:py|yaml)) -->\n```(?:python|yaml)\n(.*?)```"
    for name, text in re.findall(block, "\n".join(PAGES), re.DOTALL):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("session", SESSIONS, ids=["manifest", "profiles"])
def test_the_sessions_of_a_page_print_what_it_says(page_folder, session):
    test = doctest.DocTestParser().get_doctest(session, {}, "manifest.md", None, None)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    report: list[str] = []
    runner.run(test, out=report.append)
    assert not report, "".join(report)


def test_each_key_is_in_a_table_of_the_reference_with_its_description():
    page = (DOCS / "reference" / "manifest-keys.md").read_text(encoding="utf-8")
    for documented in [*MODELS, *MIDDLEWARE.values()]:
        for name, field in documented.model_fields.items():
            description = " ".join((field.description or "").split())
            rows = [
                line
                for line in page.splitlines()
                if line.startswith(f"| `{name}` |") and line.endswith(f"| {description} |")
            ]
            assert rows, (documented.__name__, name)


def test_the_middleware_of_the_page_can_be_loaded(page_folder):
    [items] = re.findall(r"^```yaml\n(middleware:\n.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (page_folder / "my_middleware.py").write_text(
        "async def audit(call, next):\n    return await next(call)\n\ndef make_audit(path):\n    return audit\n"
    )
    (page_folder / "with_middleware.yaml").write_text(f"sources: [notes.py]\n{items}")
    assert len(load("with_middleware.yaml")._view.store.middleware) == 5

"""YAML files of one model: toolsets and agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from ahvn_tools.loading.yaml_file import read_yaml
from ahvn_tools.manifest.document import Document, Problem
from ahvn_tools.manifest.validation import validate_as

Model = TypeVar("Model", bound=BaseModel)


def read_mapping(file: Path, shown: str, shape: str) -> tuple[dict[str, Any], Document]:
    """Return the content of a file; `shown` is how errors name it, `shape` says what it is. Raises SourceError."""
    yaml = read_yaml(file, name=shown)
    document = Document(file=file, folder=file.parent, data={}, yaml=yaml)
    if not isinstance(yaml.value, dict):
        raise document.error([Problem(path=(), message=f"{shape}.")])
    return yaml.value, document


def to_model(data: Any, model: type[Model], document: Document) -> Model:
    """Return the model of data. Raises SourceError about all that is wrong, a line for each."""
    made, problems = validate_as(model, data)
    if made is None:
        raise document.error(problems)
    return made

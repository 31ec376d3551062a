"""FindingLog: logs each finding about a toolkit once."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from ahvn_tools.errors import ToolkitError
from ahvn_tools.schema.dialects.finding import Finding

log = logging.getLogger(__name__)


class FindingLog:
    """Logs each finding once or, in a strict toolkit, raises."""

    def __init__(self) -> None:
        self.is_strict = False
        self.checked_revision: tuple[Any, ...] | None = None
        """What the toolkit contained when its findings were last reported."""
        self._logged: set[Finding] = set()

    def report(self, findings: Iterable[Finding]) -> None:
        """Log the new ones among the findings as warnings. Raises ToolkitError for all of them if it is strict."""
        found = list(findings)
        if found and self.is_strict:
            raise ToolkitError(f"The toolkit is strict. {' '.join(map(_to_sentences, found))}")
        for finding in found:
            self.log(finding)

    def log(self, finding: Finding) -> None:
        """Log a finding as a warning if it is new. A strict toolkit does so, too."""
        if finding not in self._logged:
            self._logged.add(finding)
            log.warning("%s", _to_sentences(finding))


def _to_sentences(finding: Finding) -> str:
    text = str(finding)
    return f"{text[0].upper()}{text[1:].removesuffix('.')}. {finding.fix}"

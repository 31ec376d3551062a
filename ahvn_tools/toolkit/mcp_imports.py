"""MCPImports: the MCP servers of a toolkit. Their tools follow the changes of the servers."""

from __future__ import annotations

import asyncio
import functools
import logging
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ahvn_tools.errors import BindError, DefinitionError, ToolkitError, ToolLookupError
from ahvn_tools.execution.threads import call_in_thread
from ahvn_tools.lint import find_bad_texts
from ahvn_tools.mcp.client.remote_server import RemoteServer
from ahvn_tools.mcp.trust.changes import Changes
from ahvn_tools.template import ToolTemplate
from ahvn_tools.toolkit import check
from ahvn_tools.toolkit.entry import ChangedSpec, Entry
from ahvn_tools.toolkit.imported_server import (
    ImportedServer,
    ImportOptions,
    refuse_unknown_names,
    refuse_unknown_parameters,
    to_imported_servers,
)
from ahvn_tools.toolkit.store import ToolStore, lookup

log = logging.getLogger(__name__)


class MCPImports:
    """The servers of one toolkit, by name."""

    def __init__(
        self, store: ToolStore, get_state: Callable[[], Mapping[str, Any]], roots: tuple[Path, ...] | None
    ) -> None:
        """Use the store for the tools; `get_state` returns the toolkit's own state, `roots` are its folders."""
        self._roots = roots
        self._store = store
        self._get_state = get_state
        self._lock = store.import_lock
        self.by_name: dict[str, ImportedServer] = store.imported_servers

    async def add(
        self, server: Any, name: str | None, timeout: float | None, options: ImportOptions
    ) -> list[RemoteServer]:
        """Connect to a server, or to all that a configuration names, and add their tools. Return those that answer.

        Of several servers, those that cannot be reached are logged and left for `refresh`. Raises ToolConnectionError
        when none can be reached, ToolkitError for a name that is taken; nothing is added then, and nothing stays open.
        """
        added = to_imported_servers(self._store, server, name, timeout, options)
        self._refuse_taken_names(added)
        for imported in added:
            if imported.is_owned:
                imported.server.get_host_state = self._get_state
                imported.server.get_roots = lambda: self._roots
        try:
            await asyncio.gather(*(imported.load() for imported in added))
            failed = [imported for imported in added if imported.error is not None]
            if failed and len(failed) == len(added):
                raise failed[0].error or ToolkitError("No server could be reached.")
            for imported in failed:
                log.warning("The MCP server %r cannot be reached: %s", imported.server.name, imported.error)
            # in a thread: many tools would block the loop
            await call_in_thread(self._register, added)
            await call_in_thread(self._report_findings, added)
        except BaseException:
            await call_in_thread(self._unregister, added)  # a cancelled call may have added them
            await asyncio.gather(*(imported.aclose() for imported in added), return_exceptions=True)
            raise
        return [imported.server for imported in added if imported.error is None]

    def _refuse_taken_names(self, added: Sequence[ImportedServer]) -> None:
        """Raise ToolkitError for a server whose name is taken, or whose addition was cancelled in the meantime."""
        for imported in added:
            if imported.is_removed or imported.server.name in self.by_name:
                raise ToolkitError(f"There is a server {imported.server.name!r} already. Pass another name=….")

    def _register(self, added: Sequence[ImportedServer]) -> None:
        """Add all of these or none."""
        with self._lock:
            self._refuse_taken_names(added)  # another may have been added in the meantime
            for imported in added:  # an update that starts now waits for the lock
                imported.subscribe(functools.partial(self._update_in_thread, imported))
                imported.replaceable = weakref.WeakSet(self._store.entries.values())
            reached = [imported for imported in added if imported.error is None]
            for imported in reached:
                for tool, built in imported.new_templates().items():
                    imported.entries[tool] = imported.new_entry(tool, *built, is_accepted=True)
            entries = [entry for imported in reached for entry in imported.entries.values()]
            if added and reached == added:
                refuse_unknown_names(added, added[0].options)
                refuse_unknown_parameters(added, added[0].options)
            self._store.add(entries, {}, refuses_server_clashes=any(imported.refuses_clashes for imported in added))
            self.by_name.update({imported.server.name: imported for imported in added})

    def _report_findings(self, added: Sequence[ImportedServer]) -> None:
        findings = [finding for imported in added for finding in check.find_in_server(imported)]
        self._store.finding_log.report(findings)
        for imported in added:
            for finding in imported.find_in_instructions():
                self._store.finding_log.log(finding)

    async def remove(self, name: str | None) -> None:
        """Remove a server, or all, with its tools, and close it where it was connected here. Raises ToolLookupError."""
        removed = list(self.by_name.values()) if name is None else [lookup("MCP server", name, self.by_name)]
        await call_in_thread(self._unregister, removed)
        await asyncio.gather(*(imported.aclose() for imported in removed))

    def _unregister(self, removed: Sequence[ImportedServer]) -> None:
        """Remove servers with their tools, as far as they were added."""
        with self._lock:
            for imported in removed:
                imported.unsubscribe()
                if self.by_name.get(imported.server.name) is imported:
                    del self.by_name[imported.server.name]
                self._store.remove_entries(imported.entries.values())
                self._store.remove_skills(
                    lambda one, server=imported.server: getattr(one.skill.files, "server", None) is server  # type: ignore[misc]
                )

    async def refresh(self, name: str | None) -> dict[str, Changes]:
        """List the tools of a server, or of all, and return what has changed. Raises ToolConnectionError for the one.

        One of several servers that cannot be reached is left out, with a warning.
        """
        if name is not None:
            return {name: await self._refresh_one(lookup("MCP server", name, self.by_name))}
        refreshed = list(self.by_name.values())
        outcomes = await asyncio.gather(*map(self._refresh_one, refreshed), return_exceptions=True)
        changes: dict[str, Changes] = {}
        for imported, outcome in zip(refreshed, outcomes, strict=True):
            if not isinstance(outcome, BaseException):
                changes[imported.server.name] = outcome
            elif not imported.is_removed:
                log.warning("The tools of the MCP server %r were not refreshed: %s", imported.server.name, outcome)
        return changes

    async def _refresh_one(self, imported: ImportedServer) -> Changes:
        changes = await imported.server.arefresh()
        if imported.error is not None or imported.refused:  # a name may be free again
            await self._update_in_thread(imported)
        return changes

    async def _update_in_thread(
        self, imported: ImportedServer, _server: RemoteServer | None = None, _changes: Changes | None = None
    ) -> None:
        await call_in_thread(self._update_entries, imported)

    def _update_entries(self, imported: ImportedServer) -> None:
        """Update a server's tools here. What was removed here stays removed, what was bound here stays bound."""
        with self._lock:
            if self.by_name.get(imported.server.name) is not imported:
                return  # it was removed in the meantime
            is_first_listing, imported.error = imported.error is not None, None
            templates = imported.server.templates(timeout=imported.timeout)
            for name, entry in list(imported.entries.items()):
                if name in templates:
                    self._update_entry(imported, name, entry, *templates[name])
                elif self._store.remove_entries([entry]) or entry.refusal is not None:
                    imported.remember_missing(name)
            refused = [entry for entry in imported.entries.values() if entry.refusal is not None]
            refused = [entry for entry in refused if self._store.has_group(entry.group)]
            new_entries = self._new_entries(imported, is_accepted=is_first_listing)
            self._store.add([*refused, *new_entries.values()], {})
            imported.add_entries(new_entries)
            self._store.block_unaccepted_tools()

    def _update_entry(
        self, imported: ImportedServer, name: str, entry: Entry, template: ToolTemplate, body: Any
    ) -> None:
        """Replace the definition of a tool. One that has lost a parameter which is bound here is quarantined."""
        spec = entry.spec.original if isinstance(entry.spec, ChangedSpec) else entry.spec
        old = spec.compiled.template
        if template.rebuild_arguments == old.rebuild_arguments:
            return
        compiled = entry.compiled_tool(self._store.bindings, self._store.timeout)
        bound = compiled.bindings.keys() - old.inputs.parameters_without_schema
        try:
            changed = imported.new_spec(name, template, body).compiled.template
            self._block_bad_texts(imported, name, template, body)
            if lost := bound - changed.inputs.parameters.keys():
                imported.server.quarantine(name, f"it no longer has the parameter {min(lost)!r}, which is bound here")
            else:
                entry.copy_preset_from(imported.new_entry(name, template, body))
        except (ToolkitError, BindError, DefinitionError) as error:
            imported.server.quarantine(name, f"the options of `add_mcp` no longer fit it. {error}")
        self._store.update_tool(entry, template, body)

    def _block_bad_texts(self, imported: ImportedServer, name: str, template: ToolTemplate, body: Any) -> None:
        """Block a tool that a strict toolkit would not have added, until the host accepts it."""
        if self._store.finding_log.is_strict:
            for finding in find_bad_texts(imported.new_spec(name, template, body).definition):
                imported.server.quarantine(name, str(finding))

    def _new_entries(self, imported: ImportedServer, *, is_accepted: bool) -> dict[str, Entry]:
        """Return entries for the tools that the server has added. A tool that it has added again is bound as before."""
        entries: dict[str, Entry] = {}
        errors: dict[str, str] = {}
        for name, (template, body) in imported.new_templates().items():
            if (entry := imported.missing_entries.get(name)) is not None and self._store.has_group(entry.group):
                self._update_entry(imported, name, entry, template, body)
                entries[name] = entry
                continue
            try:
                self._block_bad_texts(imported, name, template, body)
                entry = imported.new_entry(name, template, body, is_accepted=is_accepted)
                self._store.require_defined_group(entry.group)
                entries[name] = entry
            except (ToolkitError, ToolLookupError, BindError, DefinitionError) as error:
                errors[name] = str(error)
                if name not in imported.option_errors:
                    server = imported.server.name
                    log.warning("The new tool %r of the MCP server %r was not added: %s", name, server, error)
        imported.option_errors = errors
        return entries

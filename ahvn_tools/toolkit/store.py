"""ToolStore: the tools, groups, toolsets and bindings that a toolkit shares with its selections and sessions."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ahvn_tools.binding import Binding
from ahvn_tools.errors import SourceError, ToolkitError, ToolLookupError, near_misses, quote_name
from ahvn_tools.execution.compiled_tool import CompiledTool
from ahvn_tools.formats.read_only import ReadOnlyExports
from ahvn_tools.schema.dialects.finding import Finding
from ahvn_tools.secret_key import SecretKey
from ahvn_tools.settings import OutputForm
from ahvn_tools.spec import ToolSpec
from ahvn_tools.state import StateKey
from ahvn_tools.template import ToolTemplate
from ahvn_tools.toolkit.approval_store import DEFAULT_EXPIRY, ApprovalStore, to_approval_store
from ahvn_tools.toolkit.background_calls import DEFAULT_MAX_RUNNING
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.entry_options import (
    BASIC_GROUP,
    COUNT,
    ON_DUPLICATE,
    TIMEOUT,
    OnDuplicate,
    checked,
    validate_middleware,
    validate_name,
)
from ahvn_tools.toolkit.locks import KeyedLocks
from ahvn_tools.toolkit.name_clashes import Duplicate, NameClashes, WireNames, keep_bindings
from ahvn_tools.toolkit.search import SearchIndex, SearchListing
from ahvn_tools.toolkit.secret_bindings import SecretBindings
from ahvn_tools.toolkit.selection import Group, Selection, Toolset
from ahvn_tools.toolkit.sessions import ActiveCalls, GroupSwitches

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ahvn_tools.execution.call import Middleware
    from ahvn_tools.middleware.approve import Approver
    from ahvn_tools.skills.skill import Skill
    from ahvn_tools.toolkit.approval_rules import ApprovalRules
    from ahvn_tools.toolkit.remembered_rules import RuleFile
    from ahvn_tools.toolkit.structured_output import StructuredOutput


Bindings = Mapping[str, Binding]


class SecretKeys:
    """The state keys that bindings mark as secret, or have marked so: the state may still hold the values."""

    def __init__(self) -> None:
        self.known: frozenset[StateKey] = frozenset()
        """Keys that a binding once marked as secret."""
        self._own: frozenset[StateKey] = frozenset()
        """Those among them that the host has marked, and not the definition of a server's tool."""
        self._found: tuple[Bindings, list[CompiledTool], frozenset[StateKey]] | None = None
        """What `find_unchanged` has returned, and of what."""

    def add(self, binding: Binding, entry: Entry | None) -> None:
        """Remember the key of a binding if it is secret; `entry` is the one tool that it is for."""
        if binding.is_secret and binding.key is not None:
            self.known |= {binding.key}
            self._found = None
            if entry is None or entry.server_access is None:
                self._own |= {binding.key}

    def remember(self, entries: Iterable[Entry], bindings: Bindings, timeout: float | None) -> None:
        """Remember the keys of tools that are about to change or go."""
        self.known = self.find(entries, bindings, timeout)
        self._found = None

    def find(self, entries: Iterable[Entry], bindings: Bindings, timeout: float | None) -> frozenset[StateKey]:
        """Return the keys that a binding or a parameter marks as secret, or has marked so."""
        return self.known.union(*[entry.secret_keys(bindings, timeout) for entry in entries])

    def find_unchanged(
        self, entries: Iterable[Entry], bindings: Bindings, timeout: float | None
    ) -> frozenset[StateKey]:
        """Return the same, from the last time if no tool has changed since: each call in an executor asks for them."""
        entries = list(entries)
        compiled, found = [entry.spec.compiled for entry in entries], self._found
        if found is not None and found[0] is bindings and found[1] == compiled:
            return found[2]
        keys = self.find(entries, bindings, timeout)
        self._found = bindings, compiled, keys
        return keys

    def mark(self, bindings: Bindings, parameters: Iterable[str], entries: Collection[Entry]) -> Bindings:
        """Return bindings, with those marked as secret that are to be: the same mapping if none is.

        These are the bindings of state keys that the host has bound as secret, and those of secret `parameters` of the
        tools in `entries`. Such a binding reaches a server only where it was named for it.
        """
        marked = {name for name in parameters if any(entry.has_secret_parameter(name) for entry in entries)}
        secret = {
            name: replace(binding, is_secret=True)
            for name, binding in bindings.items()
            if not binding.is_secret and (name in marked or binding.key in self._own)
        }
        return {**bindings, **secret} if secret else bindings


_SKILL_ACTIONS: Final = {"keep": "not used", "rename": "not used", "replace": "used instead"}

MAX_DUPLICATES: Final = 1000
"""How many decisions about tools of one name a toolkit remembers: a server could list other names each time."""

log = logging.getLogger(__name__)

Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True, eq=False)
class ToolkitSkill:
    """A skill in a toolkit."""

    skill: Skill
    group: str = BASIC_GROUP
    """The group in which it is active."""
    audience: frozenset[str] = frozenset()
    """The audiences that may read it; everyone by default."""


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
    text = f"the tool {finding.tool!r}, {finding}" if finding.tool and finding.place else str(finding)
    return f"{text[0].upper()}{text[1:].removesuffix('.')}. {finding.fix}"


class ToolStore:
    """Entries by name, groups, toolsets and bindings. Readers need no lock: each change is one assignment."""

    output: OutputForm = "json"
    """What the results of functions are that are added without `output`."""
    spec_class: type[ToolSpec] = ToolSpec
    """The class of the specs that are made of what is added."""
    max_background = DEFAULT_MAX_RUNNING
    """How many background calls of one session run at once."""
    load_errors: tuple[SourceError, ...] = ()
    """The parts of its sources that were skipped because they cannot be loaded."""
    load_findings: tuple[Finding, ...] = ()
    """What a manifest names that no loaded tool has, where a part of its sources was skipped."""
    audience: str | None = None
    """The audience that the toolkit was loaded for; sessions and servers that name none are for it."""
    separate_audiences: frozenset[str] = frozenset()
    """Audiences for which the manifest describes a toolkit of their own."""

    def __init__(  # noqa: PLR0915  # a line for each attribute
        self, on_duplicate: OnDuplicate, timeout: float | None, max_concurrency: int
    ) -> None:
        """Begin with no tool. Raises ToolkitError for an unknown policy and for invalid limits."""
        self.on_duplicate = checked("on_duplicate", on_duplicate, ON_DUPLICATE)
        self.timeout = checked("timeout", timeout, TIMEOUT)
        self.max_concurrency = checked("max_concurrency", max_concurrency, COUNT)
        self._lock = threading.Lock()
        self.entries: dict[str, Entry] = {}
        self._names = WireNames()
        self.duplicates: tuple[Duplicate, ...] = ()
        """What was done about tools of one name: the latest decisions, each once, in their order."""
        self.groups: dict[str, Group] = {BASIC_GROUP: Group(name=BASIC_GROUP, is_active=True)}
        self._unique_ids = itertools.count(1)
        self.middleware: tuple[Middleware, ...] = ()
        self._middleware_by_use: dict[object, Middleware] = {}
        self.has_structured_outputs = False
        """Whether any tool has ever taken a model's fields."""
        self._apart: tuple[Any, frozenset[str], list[str]] = (None, frozenset(), [])
        """What `_find_apart` has returned, after the revisions that it is for."""
        self.has_tools_of_middleware = False
        """Whether a middleware has ever brought tools."""
        self.make_toolkit: Callable[[Any], Any] = lambda view: view
        """Returns the toolkit of a StoreView."""
        self.approver: Approver | None = None
        self.executor: Executor | None = None
        """In which the bodies of tools with `isolation="executor"` run."""
        self.masks_errors = True
        """Whether results hide the text of an exception that is no ToolError."""
        self.secret_key = SecretKey.create(None)
        """Signs approval requests; random unless the host has set one."""
        self.approval_store: ApprovalStore = to_approval_store(None)
        self.approval_expiry: float | None = DEFAULT_EXPIRY
        """For how many seconds a request can be approved; None: forever."""
        self.roots: tuple[Path, ...] = ()
        """The folders of the toolkit, in which relative paths of rules begin."""
        self.rules: ApprovalRules | None = None
        self.rule_file: RuleFile | None = None
        """Where remembered rules are kept; None: in the session of each."""
        self.has_rules = False
        """Whether there are rules, or a mode was ever set, or a call approved for always."""
        self.locks = KeyedLocks()
        """The locks of exclusive calls."""
        self.active_calls = ActiveCalls()
        self.imported_servers: dict[str, Any] = {}
        """The MCP servers by name; MCPImports manages them."""
        self.import_lock = threading.Lock()
        self.exports = ReadOnlyExports()
        self.search_index = SearchIndex()
        self.search_listing: SearchListing | None = None
        """The tools that are listed to a model; None: every visible tool."""
        self.toolsets: dict[str, Toolset] = {}
        self.skills: Mapping[str, ToolkitSkill] = {}
        self.bindings: Mapping[str, Binding] = {}
        self.finding_log = FindingLog()
        self.tools_revision = 0
        """Changes whenever tools or groups are added or removed."""
        self.bindings_revision = 0
        """Changes whenever a parameter is bound or unbound, or a tool's tags change."""
        self.secrets = SecretKeys()
        self.secret_bindings = SecretBindings()

    def add(self, entries: list[Entry], groups: Mapping[str, Group], *, refuses_server_clashes: bool = False) -> None:
        """Add all of these tools or none; `groups` are the groups of the toolkit that they come from.

        Raises ToolkitError for a name that is taken, where `on_duplicate` says so. A tool that follows a server raises
        nothing unless `refuses_server_clashes`: it is refused or renamed where its name is taken, and when another tool
        takes its name.
        """
        brought = self._brought_by((layer for entry in entries for layer in entry.middleware), entries)
        entries = [*entries, *brought]
        self.has_tools_of_middleware |= any(entry.is_of_middleware for entry in entries)
        for entry in entries:
            entry.refuse_uninterruptible(self.timeout)
            entry.refuse_unsealable(self.bindings)
        with self._lock:
            clashes = NameClashes(
                self.entries, self._names.entries, self.on_duplicate, refuses_server_clashes=refuses_server_clashes
            )
            for entry in entries:
                clashes.add(entry)
            duplicates = self._put_entries(clashes, groups)
        for duplicate in duplicates:
            fix = "" if duplicate.new_name is not None else "; use prefix=… or rename=… to have both"
            log.log(logging.DEBUG if duplicate in clashes.requested else logging.WARNING, "%s%s.", duplicate, fix)

    def _put_entries(self, clashes: NameClashes, groups: Mapping[str, Group]) -> list[Duplicate]:
        """Make the changes that were decided, and return the duplicates that are new."""
        added = clashes.added
        for group in self._groups_after(added.values(), groups):
            self._put_group(group)
        self._remember_secrets([*added, *(entry.name for entry in clashes.removed)])
        for entry, name in clashes.new_names.items():
            entry.rename(name)
        keep_bindings(added, self.entries)
        if clashes.removed:
            lost = clashes.removed - clashes.new_names.keys()
            self.entries = {**{entry.name: entry for entry in self.entries.values() if entry not in lost}, **added}
            self._names.reset(self.entries.values())
        else:
            self.entries.update(added)
            self._names.add(added.values())
        if any(entry.has_secret_parameter(name) for name in self.bindings for entry in added.values()):
            self.bindings = self.secrets.mark(self.bindings, self.bindings, added.values())
        self.tools_revision += 1
        new = [
            duplicate
            for entry, duplicate in clashes.duplicates
            if entry not in clashes.refusals or entry.refusal != clashes.refusals[entry]
        ]
        for entry in (*added.values(), *clashes.refusals):
            entry.refusal = clashes.refusals.get(entry)
        if new:
            self.duplicates = tuple(dict.fromkeys([*self.duplicates, *new]))[-MAX_DUPLICATES:]
        return new

    def _groups_after(self, added: Collection[Entry], groups: Mapping[str, Group]) -> list[Group]:
        """Return the groups that come with these tools. Raises for a group that is not defined beside one that is."""
        new: dict[str, Group] = {}
        for name in dict.fromkeys(entry.group for entry in added):
            known, other = self.groups.get(name), groups.get(name)
            if known is None:  # a group that was never defined is only a label, and so active
                new[name] = other or Group(name=name, is_active=True)
            elif other is not None and other.is_defined and not known.is_defined:
                new[name] = other
        defined = [group.name for group in new.values() if group.is_defined]
        for entry in added:
            self.require_defined_group(entry.group, defined)
        if defined:
            self._refuse_labels(defined)
        return list(new.values())

    def require_defined_group(self, name: str, others: Iterable[str] = ()) -> None:
        """Raise ToolLookupError for a group that is not defined while this toolkit, or one of the `others`, is."""
        if not self.has_group(name, others):
            known = dict.fromkeys([*self._defined_groups(), *others, BASIC_GROUP])
            lookup("group", name, known, " Define each group with `add_group` first.")

    def require_defined_groups(self, selection: Selection) -> None:
        """Raise ToolLookupError for a group in a selection that tools here cannot be in."""
        for part in selection.parts():
            for name in sorted(part.groups or ()):
                self.require_defined_group(name)

    def has_group(self, name: str, others: Iterable[str] = ()) -> bool:
        """Return whether tools can be in a group: it is defined here or among the `others`, or no group is."""
        known = [*self._defined_groups(), *others]
        return not known or name in known or name == BASIC_GROUP

    def _defined_groups(self) -> list[str]:
        return [group.name for group in self.groups.values() if group.is_defined]

    def _refuse_labels(self, defined: Collection[str]) -> None:
        """Raise ToolkitError if tools have a group that is not defined, and is not among those to be defined now."""
        for tool, entry in self.entries.items():
            name, group = entry.group, self.groups.get(entry.group)
            if name not in defined and not (name == BASIC_GROUP or (group is not None and group.is_defined)):
                near = near_misses(name, [*self._defined_groups(), *defined])
                raise ToolkitError(
                    f"The group {name!r} of the tool {tool!r} is not defined, and a toolkit defines all of its groups "
                    f"or none. {near} Define each group with `add_group` before you add tools."
                )

    @property
    def for_apps(self) -> frozenset[str]:
        """The names of the tools that interfaces alone may call, and no model."""
        return self._find_apart()[1]

    @property
    def always_listed(self) -> list[str]:
        """The names of the tools that are listed beside a search: those of middleware, and those for interfaces."""
        return self._find_apart()[2]

    def _find_apart(self) -> tuple[Any, frozenset[str], list[str]]:
        revision, found = (self.tools_revision, self.bindings_revision), self._apart
        if found[0] != revision:
            entries = list(self.entries.values())
            for_apps = frozenset(entry.name for entry in entries if entry.is_for_apps)
            listed = [e.name for e in entries if e.is_of_middleware or e.name in for_apps]
            found = self._apart = revision, for_apps, listed
        return found

    def remove(self, names: list[str]) -> None:
        """Remove all of these tools or none. Raises ToolLookupError for an unknown name."""
        with self._lock:
            self.require_names(names)
            self._remove_entries(lambda entry: entry.name in names)

    def remove_entries(self, entries: Iterable[Entry]) -> set[Entry]:
        """Remove those of these tools that are here, and return them: the host may have replaced others."""
        with self._lock:
            removed = {entry for entry in entries if self.entries.get(entry.name) is entry}
            if removed:
                self._remove_entries(lambda entry: entry in removed)
            return removed

    def change_tags(self, names: Iterable[str], added: frozenset[str], removed: frozenset[str]) -> None:
        """Change the tags of all of these tools or of none. Raises ToolLookupError for an unknown tool or tag."""
        with self._lock:
            entries = [self.entry(name) for name in self.require_names(names)]
            for entry in entries:
                if unknown := sorted(removed - entry.tags):
                    near = near_misses(unknown[0], sorted(entry.tags))
                    raise ToolLookupError(f"{entry.name!r} has no tag {unknown[0]!r}. {near}")
            for entry in entries:
                entry.set_tags((entry.tags | added) - removed)
            self.bindings_revision += 1

    def update_tool(self, entry: Entry, template: ToolTemplate, body: Any) -> None:
        """Replace the definition of a tool."""
        with self._lock:
            self._remember_secrets([entry.name])
            entry.spec._replace_template(template, body)  # noqa: SLF001  # of this package
            self.bindings_revision += 1

    def _remove_entries(self, is_removed: Callable[[Entry], bool]) -> None:
        self._remember_secrets([name for name, entry in self.entries.items() if is_removed(entry)])
        self.entries = {name: entry for name, entry in self.entries.items() if not is_removed(entry)}
        self._names.reset(self.entries.values())
        self.tools_revision += 1

    def require_names(self, names: Any) -> tuple[str, ...]:
        """Return the names of tools; a string is one. Raises ToolLookupError for an unknown name, and ToolkitError."""
        wanted = [names] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
        for name in wanted:
            if not isinstance(name, str):
                example = next(iter(self.entries), "find")
                raise ToolkitError(f"A tool is named by a text such as {example!r}, not by {name!r}.")
        return tuple(self.entry(name).name for name in wanted)

    def entry(self, name: str) -> Entry:
        """Return a tool. Raises ToolLookupError for an unknown name."""
        return lookup("tool", name, self.entries)

    def group(self, name: str, hidden: Collection[str] = ()) -> Group:
        """Return a group that is not `hidden`. Raises ToolLookupError for another name."""
        return lookup("group", name, self._groups_without(hidden), " A group is defined with `add_group`.")

    def _groups_without(self, hidden: Collection[str]) -> Mapping[str, Group]:
        return {name: group for name, group in self.groups.items() if name not in hidden} if hidden else self.groups

    def toolset(self, name: str) -> Toolset:
        """Return a toolset. Raises ToolLookupError for an unknown name."""
        return lookup("toolset", name, self.toolsets, " A toolset is saved with `add_toolset`.")

    def add_group(self, group: Group) -> None:
        """Add a group, or replace its definition.

        Raises ToolkitError for the basic group, and for tools in a group that is not defined.
        """
        if group.name == BASIC_GROUP:
            raise ToolkitError(f"The group {BASIC_GROUP!r} always exists and is active. Choose another name.")
        _validate_description("group", group.description)
        _validate_is_active(validate_name("name of a group", group.name), group.is_active)
        with self._lock:
            self._refuse_labels([group.name])
            self._put_group(replace(group, is_defined=True))

    def _put_group(self, group: Group) -> None:
        known = self.groups.get(group.name)
        unique_id = next(self._unique_ids) if known is None else known.unique_id
        self.groups = {**self.groups, group.name: replace(group, unique_id=unique_id)}
        self.tools_revision += 1

    def remove_group(self, name: str) -> None:
        """Remove a group with its tools. Raises ToolLookupError, and ToolkitError for the basic group."""
        if name == BASIC_GROUP:
            raise ToolkitError(f"The group {BASIC_GROUP!r} cannot be removed. Remove its tools one by one.")
        with self._lock:
            lookup("group", name, self.groups)
            self.groups = {key: group for key, group in self.groups.items() if key != name}
            self._remove_entries(lambda entry: entry.group == name)

    def set_groups(self, switches: GroupSwitches, active: Mapping[str, bool], hidden: Collection[str] = ()) -> None:
        """Switch all of these groups or none.

        Raises ToolLookupError for an unknown group and for one that is `hidden`, ToolkitError for the basic group off.
        """
        with self._lock:
            switches.group_overrides = {**switches.group_overrides, **self._to_group_overrides(active, hidden)}

    def _to_group_overrides(self, active: Mapping[str, bool], hidden: Collection[str] = ()) -> dict[int, bool]:
        known = self._groups_without(hidden)
        overrides = {lookup("group", name, known).unique_id: is_active for name, is_active in active.items()}
        for name, is_active in active.items():
            if not _validate_is_active(name, is_active) and name == BASIC_GROUP:
                raise ToolkitError(f"The group {name!r} is always active.")
        return overrides

    def set_structured_output(
        self, switches: GroupSwitches, entry: Entry, structured_output: StructuredOutput | None
    ) -> None:
        """Let a tool also take a model's fields; None undoes that."""
        with self._lock:
            self.has_structured_outputs = True
            switches.structured_outputs = {**switches.structured_outputs, entry: structured_output}

    def add_toolset(self, toolset: Toolset) -> None:
        """Add or replace a toolset. Raises ToolLookupError for an unknown toolset in it, ToolkitError for a cycle."""
        validate_name("name of a toolset", toolset.name)
        _validate_description("toolset", toolset.description)
        self.require_defined_groups(toolset.selection)
        with self._lock:
            self.toolsets = _merge_toolsets(self.toolsets, {toolset.name: toolset})

    @property
    def skill_reader(self) -> Entry | None:
        """The tool that reads skills; None if there is none, or none any more."""
        return next((entry for entry in list(self.entries.values()) if entry.reads_skills), None)

    def add_skills(self, added: Iterable[ToolkitSkill]) -> None:
        """Add all of these skills or none. Raises ToolkitError for a taken name, where `on_duplicate` says so."""
        with self._lock:
            skills = dict(self.skills)
            for one in added:
                name, known = one.skill.name, skills.get(one.skill.name)
                if known is not None and known.skill.location != one.skill.location:
                    taken = f"There is a skill {name!r} already, in {known.skill.location!r}"
                    if self.on_duplicate == "raise":
                        fix = "Rename one of them, or call remove_skills before."
                        raise ToolkitError(f"{taken}. This one is in {one.skill.location!r}. {fix}")
                    log.warning("%s: that in %r is %s.", taken, one.skill.location, _SKILL_ACTIONS[self.on_duplicate])
                if known is None or self.on_duplicate == "replace" or known.skill.location == one.skill.location:
                    skills[name] = one
            self.skills = skills

    def remove_skills(self, is_removed: Callable[[ToolkitSkill], bool]) -> None:
        """Remove skills."""
        with self._lock:
            self.skills = {name: one for name, one in self.skills.items() if not is_removed(one)}

    def restore(self, switches: GroupSwitches, active: Mapping[str, bool], toolsets: Mapping[str, Toolset]) -> None:
        """Switch just these groups, and add these toolsets; all or nothing.

        Raises ToolLookupError for an unknown group or toolset, ToolkitError for the basic group off and for a cycle of
        toolsets.
        """
        with self._lock:
            merged, group_overrides = _merge_toolsets(self.toolsets, toolsets), self._to_group_overrides(active)
            self.toolsets = merged
            switches.group_overrides = group_overrides

    def bind(self, binding: Binding, entry: Entry | None = None) -> None:
        """Bind a parameter of one tool or, without an entry, of every tool that has it, now and later."""
        with self._lock:
            self.secrets.add(binding, entry)
            if entry is None:
                self.bindings = {**self.bindings, binding.parameter: binding}
                self.bindings = self.secrets.mark(self.bindings, [binding.parameter], self.entries.values())
            else:
                entry.bind(binding)
                self.bindings = self.secrets.mark(self.bindings, [], [])
            self.bindings_revision += 1
        self.block_unaccepted_tools()

    def unbind(self, parameter: str, entry: Entry | None = None) -> None:
        """Undo `bind`."""
        with self._lock:
            if entry is None:
                self._remember_secrets(self.entries)
                self.bindings = {name: binding for name, binding in self.bindings.items() if name != parameter}
            else:
                entry.unbind(parameter)
            self.bindings_revision += 1
        self.block_unaccepted_tools()

    def block_unaccepted_tools(self) -> None:
        """Block the tools of servers that have a bound parameter which the host has not accepted.

        Each is blocked before it is listed or called, too; after this, the servers report it.
        """
        for entry in list(self.entries.values()):
            entry.is_blocked(self.bindings, self.timeout)

    def secret_keys(self) -> frozenset[StateKey]:
        """Return the state keys that a binding or a parameter marks as secret, or has marked so."""
        return self.secrets.find(list(self.entries.values()), self.bindings, self.timeout)

    def secret_keys_for_executor(self) -> frozenset[StateKey]:
        """Return the same keys, at the cost of a look at each tool."""
        return self.secrets.find_unchanged(self.entries.values(), self.bindings, self.timeout)

    def _remember_secrets(self, names: Iterable[str]) -> None:
        """Remember the secret keys of tools that are about to change or go."""
        entries = [self.entries[name] for name in names if name in self.entries]
        self.secrets.remember(entries, self.bindings, self.timeout)

    def use(self, middleware: Middleware) -> Callable[[], None]:
        """Add a middleware inside the existing ones, and its tools. Return a function that removes it once.

        Raises ToolkitError for what is no middleware, and for a tool of it whose name is taken.
        """
        use = object()  # the same middleware may be used twice
        if brought := self._brought_by([validate_middleware(middleware)]):
            self.add(brought, {})
        with self._lock:
            self._middleware_by_use[use] = middleware
            self.middleware = tuple(self._middleware_by_use.values())

        def undo() -> None:
            with self._lock:
                self._middleware_by_use.pop(use, None)
                self.middleware = tuple(self._middleware_by_use.values())
            layers = [*self.middleware, *(layer for entry in self.entries.values() for layer in entry.middleware)]
            used = [function for layer in layers for function in getattr(layer, "tools", ())]
            brought = [entry for entry in self.entries.values() if entry.is_of_middleware]
            unused = [function for function in getattr(middleware, "tools", ()) if function not in used]
            self.remove_entries(entry for entry in brought if entry.spec.function in unused)

        return undo

    def _brought_by(self, middleware: Iterable[Middleware], added: Sequence[Entry] = ()) -> list[Entry]:
        """Return the tools that some middleware has in its `tools`, without those that are here or are just added."""
        functions = {f: getattr(layer, "tool_options", {}) for layer in middleware for f in getattr(layer, "tools", ())}
        known = [entry.spec.function for entry in (*self.entries.values(), *added)] if functions else []
        entries = []
        for function, options in functions.items():
            if function not in known:
                spec = self.spec_class.from_function(function, **{"output": "json", **options})
                entry = Entry(spec, spec.name, f"the middleware of {spec.name!r}", {}, self.locks)
                entry.on_duplicate, entry.is_of_middleware = "raise", True
                entries.append(entry)
        return entries


def lookup(kind: str, name: str, known: Mapping[str, Item], hint: str = "") -> Item:
    """Return the item of this name. Raises ToolLookupError for an unknown name; `hint` ends the message."""
    if name not in known:
        raise ToolLookupError(f"There is no {kind} {quote_name(name)}. {near_misses(name, known)}{hint}")
    return known[name]


def _validate_is_active(group: str, is_active: bool) -> bool:
    """Return `is_active`. Raises ToolkitError when it is no bool."""
    if not isinstance(is_active, bool):
        raise ToolkitError(f"The group {group!r} is switched by True or False, not by {is_active!r}.")
    return is_active


def _validate_description(kind: str, description: Any) -> None:
    """Raise ToolkitError unless a description is a text."""
    if not isinstance(description, str):
        raise ToolkitError(
            f"The description of a {kind} is a text, not a {type(description).__name__}. Pass other options by name."
        )


def _merge_toolsets(toolsets: Mapping[str, Toolset], added: Mapping[str, Toolset]) -> dict[str, Toolset]:
    """Return both. Raises ToolLookupError for a toolset that refers to an unknown one, ToolkitError for a cycle."""
    merged = {**toolsets, **added}
    for name in added:
        reached: set[str] = set()
        waiting = [name]
        while waiting:
            inner_names = lookup("toolset", waiting.pop(), merged).selection.toolset_names()
            if name in inner_names:
                raise ToolkitError(f"The toolset {name!r} cannot be made of itself.")
            waiting.extend(inner for inner in inner_names if inner not in reached)
            reached.update(inner_names)
    return merged

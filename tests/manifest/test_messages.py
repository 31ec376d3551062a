"""The errors about bad manifests: each names file, line and key, and says what is allowed."""

# ruff: noqa: E501  # messages are as they are

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ahvn_tools import ToolSpecError
from ahvn_tools.errors import SourceError
from tests.manifest.conftest import Load

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "TOKEN": "hunter2-token", "KEY": "short", "NUMBER": "7", "WORD": "sesame-word"}

BAD = [
    ("- notes.py", snapshot("kit.yaml:1: a manifest is a mapping: `sources: […]`.")),
    ("toolset: {}", snapshot("kit.yaml:1: toolset: there is no such key. Did you mean 'toolsets' or 'tools'?")),
    ("zzz: 1\nqqq: 2", snapshot("""\
kit.yaml:1: zzz: there is no such key. The keys are `name`, `description`, `sources`, `skills`, `groups`, `toolsets`, `tools`, `binds`, `timeout`, `max_concurrency`, `max_background`, `strict`, `mask_errors`, `output`, `roots`, `on_duplicate`, `approval`, `middleware`, `search`, `code_mode`, `groups_tool`, `audiences`, `profiles`.
kit.yaml:2: qqq: there is no such key. The keys are `name`, `description`, `sources`, `skills`, `groups`, `toolsets`, `tools`, `binds`, `timeout`, `max_concurrency`, `max_background`, `strict`, `mask_errors`, `output`, `roots`, `on_duplicate`, `approval`, `middleware`, `search`, `code_mode`, `groups_tool`, `audiences`, `profiles`.\
""")),
    ("name: 5", snapshot("kit.yaml:1: name: a text is expected, not a number. Put it in quotes.")),
    ("name: [a]", snapshot("kit.yaml:1: name: a text is expected, not a list.")),
    ("name:\n  - a\n timeout: 3", snapshot("kit.yaml, line 3: did not find expected key while parsing a block mapping.")),
    ("name: a\nname: b", snapshot("kit.yaml, line 2: the key 'name' is here for a second time: line 1 has it.")),
    ("name: !!python/object:os.system a", snapshot("kit.yaml, line 1: the tag '!!python/object:os.system' is not supported: only texts, numbers, lists and the like are.")),
    ("name: *nowhere", snapshot("kit.yaml, line 1: there is no anchor &nowhere before this alias, or it contains the alias.")),
    ("sources: notes.py", snapshot("kit.yaml:1: sources: a list is expected, not a text.")),
    ("sources: [{}]", snapshot("kit.yaml:1: sources[0]: a source is a text, or a mapping with one of the keys 'source', 'server', 'openapi', 'http', 'external', 'code', 'manifest', 'builtins'.")),
    ("sources: [5]", snapshot("kit.yaml:1: sources[0]: a source is a text, or a mapping with one of the keys 'source', 'server', 'openapi', 'http', 'external', 'code', 'manifest', 'builtins'.")),
    ("sources: [{pth: notes.py}]", snapshot("kit.yaml:1: sources[0]: a source has one of the keys `source`, `server`, `openapi`, `http`, `external`, `code`, `manifest`, `builtins`.")),
    ("sources: [{source: notes.py, module: notes}]", snapshot("kit.yaml:1: sources[0].module: there is no such key. The keys are `max_items`, `max_bytes`, `isolation`, `ship`, `ship_secrets`, `keep_children`, `group`, `tags`, `audience`, `timeout`, `requires_approval`, `exclusive`, `allowed_callers`, `task`, `middleware`, `include`, `exclude`, `prefix`, `rename`, `on_duplicate`, `coerce_numbers_to_str`, `binds`, `source`.")),
    ("sources: [{source: notes.py, tag: a}]", snapshot("kit.yaml:1: sources[0].tag: there is no such key. Did you mean 'tags'?")),
    ("sources: [{source: notes.py, env: {A: b}}]", snapshot("kit.yaml:1: sources[0].env: there is no such key. The keys are `max_items`, `max_bytes`, `isolation`, `ship`, `ship_secrets`, `keep_children`, `group`, `tags`, `audience`, `timeout`, `requires_approval`, `exclusive`, `allowed_callers`, `task`, `middleware`, `include`, `exclude`, `prefix`, `rename`, `on_duplicate`, `coerce_numbers_to_str`, `binds`, `source`.")),
    ("sources: [{source: ''}, {code: ''}]", snapshot("""\
kit.yaml:1: sources[0]: `source` is empty.
kit.yaml:1: sources[1]: `code` is empty.\
""")),
    ("sources: [{manifest: missing.yaml}]", snapshot("kit.yaml:1: sources[0]: missing.yaml cannot be read: No such file or directory.")),
    ("sources: [notes.py]\ngroups_tool: {name: find}", snapshot("kit.yaml:2: groups_tool: there is a tool 'find' already: give one of them another `name`.")),
    ("sources: [notes.py]\nsearch: {call_tool: {name: find}}", snapshot("kit.yaml:2: search: there is a tool 'find' already: give one of them another `name`.")),
    ("sources: [{source: missing.py}]", snapshot("kit.yaml:1: sources[0]: There is no file 'missing.py'.")),
    ("sources: [missing.yaml]", snapshot("kit.yaml:1: sources[0]: There is no file 'missing.yaml'.")),
    ("sources: [no_module_here]", snapshot("kit.yaml:1: sources[0]: There is no file and no module 'no_module_here', neither installed nor in FOLDER.")),
    ("sources: [notes.py:nothing]", snapshot("kit.yaml:1: sources[0]: notes.py has no 'nothing'. Known: 'ToolRegistry', 'archive', 'ask', 'delete', 'find', 'reg_toolspec', 'repeat', 'shout', 'tool'.")),
    ("sources: [{source: notes.py, include: finds}]", snapshot("kit.yaml:1: sources[0].include: 'finds' is no tool of this source. Did you mean 'find'?")),
    ("sources: [{source: notes.py, exclude: 'get_*'}]", snapshot("kit.yaml:1: sources[0].exclude: 'get_*' matches no tool of this source. Known: 'find', 'delete', 'restore'.")),
    ("sources: [{source: notes.py, rename: {fnd: search}}]", snapshot("kit.yaml:1: sources[0].rename: 'fnd' is no tool of this source. Did you mean 'find'?")),
    ("sources: [{source: notes.py, binds: {usr: user.id}}]", snapshot("kit.yaml:1: sources[0].binds.usr: no tool of this source has a parameter 'usr'. Did you mean 'user'?")),
    ("sources: [{source: notes.py, exclusive: nte}]", snapshot("""\
kit.yaml:1: sources[0].exclusive: 'find' has no argument 'nte' to be exclusive by. Known: 'query', 'limit', 'token'.
kit.yaml:1: sources[0].exclusive: 'delete' has no argument 'nte' to be exclusive by. Did you mean 'note'?
kit.yaml:1: sources[0].exclusive: 'restore' has no argument 'nte' to be exclusive by. Did you mean 'note'?\
""")),
    ("sources: [{source: notes.py, on_duplicate: kep}]", snapshot("kit.yaml:1: sources[0].on_duplicate: it is one of 'raise', 'keep', 'replace', 'rename'. Did you mean 'keep'?")),
    ("sources: [{source: notes.py, timeout: -1}]", snapshot("kit.yaml:1: sources[0].timeout: must be greater than 0.")),
    ("sources: [{source: notes.py, isolation: thread}]", snapshot("kit.yaml:1: sources[0].isolation: it is one of 'process', 'executor'.")),
    ("sources: [{source: notes.py, middleware: [lgo]}]", snapshot("kit.yaml:1: sources[0].middleware[0]: there is no middleware 'lgo'. Known: 'cache', 'keep_large', 'limit', 'log', 'metrics', 'record', 'replay', 'retry', 'trace', 'truncate', 'watch'. Name your own as `module:name`.")),
    ("sources: [{server: 'no-such-program --now'}]", snapshot("kit.yaml:1: sources[0]: There is no program 'no-such-program', which would be the command of an MCP server, and no such file.")),
    ("sources: [{server: {command: python, args: 3}}]", snapshot("kit.yaml:1: sources[0]: The mcp.json: Server 'python': `args` is a list of texts, not a int.")),
    ("sources: [{server: {command: python}, limits: {conect: 3}}]", snapshot("kit.yaml:1: sources[0].limits: there is no limit 'conect'. Did you mean 'connect'?")),
    ("sources: [{code: 'def f(: pass'}]", snapshot("kit.yaml:1: sources[0]: code cannot be loaded: SyntaxError: invalid syntax (_loaded_code_de97bcf1ec8c.py, line 1)")),
    ("sources:\n  - notes.py\n  - source: one.py\n  - source: two.py", snapshot("""\
kit.yaml:3: sources[1]: There is no file 'one.py'.
kit.yaml:4: sources[2]: There is no file 'two.py'.\
""")),
    ("groups: {a: {activ: true}}", snapshot("kit.yaml:1: groups.a.activ: there is no such key. Did you mean 'active'?")),
    ("groups: {a: {active: perhaps}}", snapshot("kit.yaml:1: groups.a.active: true or false is expected, not a text.")),
    ("groups: {basic: All}", snapshot("kit.yaml:1: groups.basic: The group 'basic' always exists and is active. Choose another name.")),
    ("sources: [notes.py]\ntools: {fnd: {timeout: 3}}", snapshot("kit.yaml:2: tools.fnd: there is no tool 'fnd'. Did you mean 'find'?")),
    ("sources: [notes.py]\ntools:\n  find:\n    timout: 3", snapshot("kit.yaml:4: tools.find.timout: there is no such key. Did you mean 'timeout'?")),
    ("sources: [notes.py]\ntools: {find: {preset: {limit: many}}}", snapshot("kit.yaml:2: tools.find.preset.limit: The preset of 'limit' of 'find' does not fit 'int'.")),
    ("sources: [notes.py]\ntools: {fnd: {preset: {limit: 1}}}", snapshot("kit.yaml:2: tools.fnd: there is no tool 'fnd'. Did you mean 'find'?")),
    ("sources: [notes.py]\ntools: {find: {preset: {limt: 1}}}", snapshot("kit.yaml:2: tools.find.preset.limt: 'find' has no parameter 'limt' to preset. Did you mean 'limit'?")),
    ("sources: [{source: notes.py, include: find}]\ntools: {'*': {preset: {limit: many}}}", snapshot("kit.yaml:2: tools.*.preset.limit: The preset of 'limit' of 'find' does not fit 'int'.")),
    ("sources: [notes.py]\ntools: {'f*': {exclusive: nte}}", snapshot("kit.yaml:2: tools.f*.exclusive: 'find' has no argument 'nte' to be exclusive by. Known: 'query', 'limit', 'token'.")),
    ("sources: [notes.py]\ntools: {find: {binds: {qury: q}, description: Find}}", snapshot("kit.yaml:2: tools.find.binds.qury: 'find' has no parameter 'qury' to bind. Did you mean 'query'?")),
    ("sources: [notes.py]\ntools: {'get_*': {timeout: 3}}", snapshot("kit.yaml:2: tools.get_*: no tool matches 'get_*'. Known: 'find', 'delete', 'restore'.")),
    ("sources: [notes.py]\nprofiles: {prod: {}}\ntools: {fnd: {enabled: false}}", snapshot("kit.yaml:3: tools.fnd: there is no tool 'fnd'. Did you mean 'find'?")),
    ("sources: [notes.py]\ntools: {'*': {preset: {limt: 3}}}", snapshot("kit.yaml:2: tools.*.preset.limt: none of these tools has a parameter 'limt'. Did you mean 'limit'?")),
    ("sources: [notes.py]\ntools: {'f*': {binds: {qury: q}}}", snapshot("kit.yaml:2: tools.f*.binds.qury: none of these tools has a parameter 'qury'. Did you mean 'query'?")),
    ("binds: {user: 5}", snapshot("kit.yaml:1: binds.user: a text or a mapping is expected, not a number.")),
    ("binds: {user: {key: user.id, value: ann}}", snapshot("kit.yaml:1: binds.user.value: there is no such key. The keys are `key`, `secret`, `required`, `default`.")),
    ("binds: {user: 'a..b'}", snapshot("kit.yaml:1: binds.user: Malformed state key 'a..b': write names joined by dots, each followed by [i] for a list index ('a.items[0].id'); a literal dot or bracket is '\\.' or '\\['.")),
    ("toolsets: {a: [find], b: {any_of: [c]}}", snapshot("kit.yaml:1: toolsets.b: There is no toolset 'c'. Known: 'a', 'b'.")),
    ("toolsets: {a: {any_of: [b]}, b: {any_of: [a]}}", snapshot("""\
kit.yaml:1: toolsets.a: There is no toolset 'b'. Known: 'a'.
kit.yaml:1: toolsets.b: There is no toolset 'a'. Known: 'b'.\
""")),
    ("toolsets: {a: {tool: find}}", snapshot("kit.yaml:1: toolsets.a.tool: there is no such key. Did you mean 'tools' or 'toolset'?")),
    ("timeout: soon", snapshot("kit.yaml:1: timeout: a number is expected, not a text.")),
    ("timeout: .inf", snapshot("kit.yaml:1: timeout: must be a finite number.")),
    ("max_concurrency: 0", snapshot("kit.yaml:1: max_concurrency: must be at least 1.")),
    ("max_concurrency: 1.5", snapshot("kit.yaml:1: max_concurrency: must be a whole number.")),
    ("strict: maybe", snapshot("kit.yaml:1: strict: true or false is expected, not a text.")),
    ("output: rw", snapshot("kit.yaml:1: output: it is one of 'json', 'raw'. Did you mean 'raw'?")),
    ("on_duplicate: merge", snapshot("kit.yaml:1: on_duplicate: it is one of 'raise', 'keep', 'replace', 'rename'.")),
    ("middleware: [retri]", snapshot("kit.yaml:1: middleware[0]: there is no middleware 'retri'. Did you mean 'retry'? Name your own as `module:name`.")),
    ("middleware: [{retry: {tries: 3}}]", snapshot("kit.yaml:1: middleware[0]: `retry` has no option 'tries'. Known: 'tools', 'all_tools', 'attempts', 'codes', 'initial_delay', 'max_delay', 'max_elapsed'.")),
    ("middleware: [{retry: {attempts: many}}]", snapshot("kit.yaml:1: middleware[0]: the option 'attempts' of `retry` does not fit: a whole number is expected.")),
    ("middleware: [{retry: {}, log: {}}]", snapshot("kit.yaml:1: middleware[0]: write one middleware for each item of the list: its name, or its name and its options.")),
    ("middleware: [limit]", snapshot("kit.yaml:1: middleware[0]: Set at least one limit, each to 1 or more calls, and `wait` to 0 or more seconds.")),
    ("middleware: ['notes:nothing']", snapshot("kit.yaml:1: middleware[0]: notes has no 'nothing'. Known: 'ToolRegistry', 'archive', 'ask', 'delete', 'find', 'reg_toolspec', 'repeat', 'shout', 'tool'.")),
    ("middleware: ['notes:archive']", snapshot("kit.yaml:1: middleware[0]: A middleware is `async (call, next) -> ToolResult`, not an object of the class _Archive.")),
    ("middleware: [{'notes:repeat': {tmes: 3}}]", snapshot("kit.yaml:1: middleware[0]: 'notes:repeat' has no option 'tmes'. Did you mean 'times'?")),
    ("middleware: log", snapshot("kit.yaml:1: middleware: a list is expected, not a text.")),
    ("approval: {approver: notes}", snapshot("kit.yaml:1: approval.approver: 'notes' is no import path: write `module:name` or `FILE.py:name`.")),
    ("approval: {approver: 'notes:askk'}", snapshot("kit.yaml:1: approval.approver: notes has no 'askk'. Did you mean 'ask'?")),
    ("approval: {secret_key: 0123456789abcdef0123}", snapshot("kit.yaml:1: approval.secret_key: a key is no part of a file, nor its default: write `${APPROVAL_KEY}`, and set that variable.")),
    ("approval: {secret_key: '${UNSET}'}", snapshot("kit.yaml:1: approval.secret_key: the environment variable 'UNSET' is not set. Set it.")),
    ("approval: {secret_key: '${KEY}'}", snapshot("kit.yaml:1: approval.secret_key: A secret_key is a text or bytes of at least 16 bytes; create one with secrets.token_hex(32) and keep it where your passwords are.")),
    ("approval: {deny: [find, 'find(']}", snapshot('kit.yaml:1: approval.deny[1]: \'find(\' is no rule: conditions on arguments are in parentheses. Write a rule as in git_*, notes/find or shell_exec(cmd: "git status*").')),
    ("approval: {mode: readonly}", snapshot("kit.yaml:1: approval.mode: it is one of 'read_only', 'ask', 'accept_edits', 'allow'. Did you mean 'read_only'?")),
    ("approval: {allow: [find], remember: rules.json}", snapshot("kit.yaml:1: A file of remembered rules needs a key that stays: pass secret_key=… to the Toolkit.")),
    ("approval: {expiry: 0}", snapshot("kit.yaml:1: approval.expiry: must be greater than 0.")),
    ("search: {cor: [find]}", snapshot("kit.yaml:1: search.cor: there is no such key. Did you mean 'core'?")),
    ("sources: [notes.py]\ncode_mode: [fnd]", snapshot("kit.yaml:2: code_mode: There is no tool 'fnd'. Did you mean 'find'?")),
    ("sources: [notes.py]\nsearch: true\ncode_mode: true", snapshot("kit.yaml:3: code_mode: a toolkit has `search` or `code_mode`, not both.")),
    ("sources: [notes.py]\ncode_mode: {run_tool: {name: find}}", snapshot("kit.yaml:2: code_mode: There is a tool 'find' already: give one of them another `name`.")),
    ("code_mode: {limits: {calls: 0}}", snapshot("kit.yaml:1: code_mode.limits.calls: must be greater than 0.")),
    ("sources: [notes.py]\nsearch: [fnd]", snapshot("kit.yaml:2: search: There is no tool 'fnd'. Did you mean 'find'?")),
    ("groups_tool: switch", snapshot("kit.yaml:1: groups_tool: true or a mapping is expected, not a text.")),
    ("profiles: {prod: {timeot: 3}}", snapshot("kit.yaml:1: profiles.prod.timeot: there is no such key. Did you mean 'timeout'?")),
    ("profiles: {prod: {profiles: {}}}", snapshot("kit.yaml:1: profiles.prod.profiles: there is no such key. The keys are `name`, `description`, `sources`, `skills`, `groups`, `toolsets`, `tools`, `binds`, `timeout`, `max_concurrency`, `max_background`, `strict`, `mask_errors`, `output`, `roots`, `on_duplicate`, `approval`, `middleware`, `search`, `code_mode`, `groups_tool`, `audiences`.")),
    ("profiles: [prod]", snapshot("kit.yaml:1: profiles: a mapping is expected, not a list.")),
    ("audiences: {sub: {timeout: no}}", snapshot("kit.yaml:1: audiences.sub.timeout: a number is expected, not a text.")),
    ("timeout: ${SECONDS}", snapshot("kit.yaml:1: timeout: the environment variable 'SECONDS' is not set. Set it, or write `${SECONDS:default}`.")),
    ("timeout: ${WORD}", snapshot("kit.yaml:1: timeout: a number is expected, not a text.")),
    ("name: ${TOKEN}", snapshot("kit.yaml:1: name: `${TOKEN}` cannot be used here, because this text is shown and variables count as secrets. Write `$${` for a literal `${`.")),
    ("sources: [notes.py]\ntools: {find: {description: 'Find ${TOKEN}'}}", snapshot("kit.yaml:2: tools.find.description: `${TOKEN}` cannot be used here, because this text is shown and variables count as secrets. Write `$${` for a literal `${`.")),
    ("sources: [notes.py]\ntools: {find: {preset: {limit: '${TOKEN}'}}}", snapshot("kit.yaml:2: tools.find.preset.limit: The preset of 'limit' of 'find' does not fit 'int'.")),
    ("sources: [notes.py]\ntools: {find: {preset: {token: '${TOKEN'}}}", snapshot("kit.yaml:2: tools.find.preset.token: a variable is `${NAME}` or `${NAME:default}`, and a literal `${` is `$${`.")),
    ("sources: [notes.py]\ntools: {find: {preset: {token: '${1}'}}}", snapshot("kit.yaml:2: tools.find.preset.token: a variable is `${NAME}` or `${NAME:default}`, and a literal `${` is `$${`.")),
    ("sources: [{server: {url: 'http://localhost/', headers: {A: '${env:TOKEN}'}}}]", snapshot("kit.yaml:1: sources[0].server.headers.A: write `${TOKEN}`: `env:` belongs to mcp.json, and here `:` begins a default.")),
    ("sources: [{source: '${WORD}.py'}]", snapshot("kit.yaml:1: sources[0]: There is no file '<WORD>.py'.")),
    ("middleware: [{'${TOKEN}': {}}]", snapshot("""\
kit.yaml:1: middleware[0].${TOKEN}: a variable cannot be in a key, only in a value.
kit.yaml:1: middleware[0]: there is no middleware '${TOKEN}'. Known: 'cache', 'keep_large', 'limit', 'log', 'metrics', 'record', 'replay', 'retry', 'trace', 'truncate', 'watch'. Name your own as `module:name`.\
""")),
    ("sources: [notes.py]\ntoolst: {}\ntimeout: x\nmax_background: 0\nmiddleware: [nope]", snapshot("""\
kit.yaml:2: toolst: there is no such key. Did you mean 'tools' or 'toolsets'?
kit.yaml:3: timeout: a number is expected, not a text.
kit.yaml:4: max_background: must be at least 1.
kit.yaml:5: middleware[0]: there is no middleware 'nope'. Known: 'cache', 'keep_large', 'limit', 'log', 'metrics', 'record', 'replay', 'retry', 'trace', 'truncate', 'watch'. Name your own as `module:name`.\
""")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD, ids=[text.splitlines()[-1] for text, _ in BAD])
def test_a_bad_manifest_is_refused_with_file_line_and_key(
    text: str, message: str, load_text: Load, folder: Path
) -> None:
    """No message contains a value from the environment."""
    with pytest.raises(ToolSpecError) as caught:
        load_text(text, env=ENVIRONMENT)
    assert isinstance(caught.value, SourceError)
    assert str(caught.value).replace(str(folder), "FOLDER") == message
    assert not any(value in str(caught.value) for name, value in ENVIRONMENT.items() if name not in {"PATH", "NUMBER"})

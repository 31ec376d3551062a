"""Programs that try to set a bound parameter, or to pass what the tool does not take."""

from __future__ import annotations

from typing import Final

from tests.code_mode.attacks.hostile_program import HostileProgram as P
from tests.code_mode.attacks.hostile_program import fails, returns

NOTED: Final = "a note of 13 letters"
UNKNOWN: Final = "does not match any known parameter"

NAMES: Final = {
    "its name": "user",
    "upper case": "USER",
    "a capital": "User",
    "an underscore after it": "user_",
    "an underscore before it": "_user",
    "a cyrillic letter": "us\u0435r",
    "fullwidth letters": "\uff55\uff53\uff45\uff52",
    "mathematical letters": "\U0001d42e\U0001d42c\U0001d41e\U0001d42b",
    "a long s": "u\u017fer",
    "a zero width space": "user\u200b",
    "a space": " user",
    "a NUL": "user\\0",
    "the key of the binding": "team.owner",
    "the state": "$state",
    "the state of a session": "state",
    "the context": "context",
    "self": "self",
    "MCP's meta": "_meta",
    "the approval": "is_approved",
    "the key of a secret": "token",
    "the owner": "owner",
}
"""Spellings of a bound parameter, by what they are."""

OVERRIDES: Final = [
    *[
        P(f"unpacks {name}", f"names = {{'{spelling}': 'eve'}}\nlist_issues(**names)", fails("list_issues"))
        for name, spelling in NAMES.items()
    ],
    P("passes it by name", "list_issues(user='eve')", fails(UNKNOWN)),
    P("passes it in fullwidth letters", "list_issues(\uff55\uff53\uff45\uff52='eve')", fails("Line 1")),
    P("passes it by position", "list_issues('open', 'eve')", fails("Too many positional arguments")),
    P(
        "passes it by an unpacked position",
        "values = ['open', 'eve']\nlist_issues(*values)",
        fails("at most 1 argument"),
    ),
    P("passes it first", "list_issues('eve', 'open')", fails("Line 1")),
    P("unpacks it beside a parameter", "a = {'state': 'open', 'user': 'eve'}\nlist_issues(**a)", fails("list_issues")),
    P("passes a parameter twice", "a = {'state': 'open'}\nlist_issues('open', **a)", fails("state")),
    P("passes a parameter in two spellings", "a = {'from': 'x', 'from_': 'y'}\nforward(**a)", fails("two values")),
    P("unpacks keys that are no texts", "a = {1: 'eve'}\nlist_issues(**a)", fails("Line 2")),
    P("calls the function by another name", "other = list_issues\nother(**{'user': 'eve'})", fails("user")),
    P("calls the function by a text", "eval('list_issues')(user='eve')", fails("Invalid arguments")),
    P("calls the function in exec", "exec('list_issues(user=\"eve\")')", fails("Invalid arguments")),
    P("calls it in a list", "[list_issues][0](**{'user': 'eve'})", fails("user")),
    P("maps the function", "eval('map')(list_issues, ['open'], ['eve'])", fails("Error")),
    P(
        "gives its own function the name",
        "def list_issues(user: str) -> str:\n    return user\nlist_issues('own value')",
        returns("own value"),
    ),
    P(
        "redefines the function in a class",
        "class A:\n    list_issues = list_issues\nA.list_issues(user='eve')",
        fails("user"),
    ),
    P("nests it in an object argument", "note({'user': 'eve', 'text': 'x'})", returns(NOTED)),
    P("nests it in a text of JSON", 'note(\'{"user": "eve"}\')', returns(NOTED)),
    P(
        "nests it in an object of its own class",
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    user: str\nnote(A('eve'))",
        returns(NOTED),
    ),
    P(
        "is a text of its own class",
        "class S(str):\n    pass\nlist_issues(**{S('user'): 'eve'})",
        fails("do not support class inheritance"),
    ),
    P("passes a tuple", "note((1, 2))", returns(NOTED)),
    P("passes a set", "note({1})", returns(NOTED)),
    P("passes bytes", "note(b'\\xff')", returns(NOTED)),
    P("passes NaN", "note(float('nan'))", fails("note")),
    P("passes Infinity", "note(float('inf'))", fails("note")),
    P("passes a huge integer", "note(10**5000)", fails("more than 4300 digits")),
    P("passes a lone surrogate", "note('\\ud800')", returns(NOTED)),
    P("passes a function", "note(list_issues)", returns(NOTED)),
    P("passes a class", "note(int)", returns(NOTED)),
    P("passes an exception", "note(ValueError('x'))", returns(NOTED)),
    P("passes keys that are one text", "note({1: 'a', '1': 'b'})", fails("the same text")),
    P("calls a tool of others", "fire_everybody()", fails("used when not defined")),
    P("calls a tool of others unseen", "eval('fire_everybody')()", fails("Error")),
    P("calls itself", "run_code('1')", fails("used when not defined")),
    P("calls itself unseen", "eval('run_code')('1')", fails("Error")),
    P("calls a tool that describes", "eval('describe_tools')(['list_issues'])", fails("Error")),
    P("calls an empty name", "eval('')()", fails("Error")),
]

"""Awkward schemas: what servers, generators and people really write as the schema of a tool's arguments, or might."""

from __future__ import annotations

import itertools
from typing import Any

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
NONE = {"type": "null"}
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def of(*required: str, **properties: Any) -> dict[str, Any]:
    """Return an object schema with these members."""
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def one(node: Any, defs: Any = None, **root: Any) -> dict[str, Any]:
    """Return an object schema with one required member `a`."""
    return {**of("a", a=node), **root, **({"$defs": defs} if defs else {})}


def ref(name: str) -> dict[str, Any]:
    """Return a reference to a definition."""
    return {"$ref": f"#/$defs/{name}"}


def deep(levels: int, leaf: Any = TEXT) -> dict[str, Any]:
    """Return objects and arrays inside each other."""
    node = leaf
    for level in range(levels):
        node = of("next", next=node) if level % 2 else {"type": "array", "items": node}
    return one(node)


def bomb(definitions: int, key: str = "properties") -> dict[str, Any]:
    """Return a schema of which each definition refers twice to the next: 2 ** definitions places in a few lines."""

    def twice(index: int) -> dict[str, Any]:
        reference = {"$ref": f"#/$defs/D{index + 1}"}
        if key == "properties":
            return of(left=reference, right={**reference, "description": "The other half."})
        return {key: [reference, {**reference, "title": f"T{index}"}]}

    chain = {f"D{index}": twice(index) for index in range(definitions)}
    return one({"$ref": "#/$defs/D0"}, **{"$defs": {**chain, f"D{definitions}": TEXT}})


OTHER_TYPES = (
    "dict float any tuple HashMap long String str int bool list set double Boolean Array ArrayList char byte "
    "date datetime bytes None undefined OBJECT List[int] Optional[str] string[] file number|string"
)
"""Words for types in other languages."""
FORMATS = (
    "date-time date time duration email idn-email hostname ipv4 ipv6 uri uri-reference uuid regex json-pointer "
    "binary byte password path x-own"
)
"""Words for formats."""

NODE = of("value", value=TEXT, next=ref("Node"))
CAT = of("kind", kind={"const": "cat"}, lives=WHOLE)
DOG = of("kind", kind={"const": "dog"}, name=TEXT)
CASES: dict[str, Any] = {
    # references
    "recursive": one(ref("Node"), defs={"Node": NODE}),
    "recursive, required": one(ref("Node"), defs={"Node": {**NODE, "required": ["value", "next"]}}),
    "recursive through items": one(
        ref("Tree"), defs={"Tree": of("leaves", leaves={"type": "array", "items": ref("Tree")})}
    ),
    "recursive through a map": one(ref("M"), defs={"M": {"type": "object", "additionalProperties": ref("M")}}),
    "recursive through a choice": one(
        ref("J"), defs={"J": {"anyOf": [TEXT, WHOLE, {"type": "array", "items": ref("J")}]}}
    ),
    "mutually recursive": one(ref("A"), defs={"A": of(b=ref("B")), "B": of("a", a=ref("A"))}),
    "mutually recursive, required": one(ref("A"), defs={"A": of("b", b=ref("B")), "B": of("a", a=ref("A"))}),
    "recursive at the root": of("name", name=TEXT, child={"$ref": "#"}),
    "recursive at the root, required": of("child", child={"$ref": "#"}),
    "root is a reference": {"$ref": "#/$defs/Node", "$defs": {"Node": NODE}},
    "root is a reference to itself": {"$ref": "#"},
    "root is a loop of references": {"$ref": "#/$defs/A", "$defs": {"A": ref("B"), "B": ref("A")}},
    "a loop of references": one(ref("A"), defs={"A": ref("B"), "B": ref("A")}),
    "a loop of choices": one(ref("A"), defs={"A": {"anyOf": [ref("A"), TEXT]}}),
    "a reference to itself": one({"$ref": "#/properties/a"}),
    "escaped references": of(
        "a",
        "b",
        "c",
        a={"$ref": "#/$defs/a~1b"},
        b={"$ref": "#/$defs/a~0b"},
        c={"$ref": "#/$defs/a%20b"},
        d={"$ref": "#/$defs/a%25b"},
    )
    | {"$defs": {"a/b": TEXT, "a~b": WHOLE, "a b": of(x=TEXT), "a%b": NONE}},
    "odd names of definitions": one(
        {"$ref": "#/$defs/List%5Bint%5D"}, defs={"List[int]": {"type": "array", "items": WHOLE}}
    ),
    "old definitions": one(
        {"$ref": "#/definitions/A"}, definitions={"A": of(x={"$ref": "#/definitions/B"}), "B": TEXT}
    ),
    "both kinds of definitions": of(a={"$ref": "#/definitions/A"}, b=ref("A"))
    | {"definitions": {"A": TEXT}, "$defs": {"A": WHOLE}},
    "definitions further in": one(
        {
            **of(x={"$ref": "#/properties/a/$defs/X"}, y={"$ref": "#/properties/a/definitions/Y"}),
            "$defs": {"X": TEXT},
            "definitions": {"Y": WHOLE},
        }
    ),
    "references into members": of(
        a=of(x=TEXT, y=WHOLE), b={"$ref": "#/properties/a"}, c={"$ref": "#/properties/a/properties/x"}
    ),
    "references into a list": of(a={"anyOf": [TEXT, of(x=WHOLE)]}, b={"$ref": "#/properties/a/anyOf/1"}),
    "components of OpenAPI": one({"$ref": "#/components/schemas/A"}, components={"schemas": {"A": of(x=TEXT)}}),
    "an external reference": one({"$ref": "https://example.com/schemas/a.json"}),
    "a reference to a file": one({"$ref": "file:///etc/passwd"}),
    "a reference to a neighbour": one({"$ref": "other.json#/$defs/A", "description": "Elsewhere."}),
    "a reference to nothing": one(ref("Gone"), defs={"Here": TEXT}),
    "a reference to nothing, with words": one({"$ref": "#/$defs/Gone", "description": "It is gone."}),
    "a reference to an anchor": one({"$ref": "#here"}, defs={"A": {"$anchor": "here", **TEXT}}),
    "a reference by id": one({"$ref": "a.json"}, **{"$id": "https://a.b/", "$defs": {"A": {"$id": "a.json", **TEXT}}}),
    "a reference to what is no schema": one({"$ref": "#/required"}),
    "a reference to words": one({"$ref": "#/description"}, description="Words."),
    "a reference into an unknown keyword": one({"$ref": "#/x-types/A"}, **{"x-types": {"A": of(x=TEXT)}}),
    "a reference that is no text": one({"$ref": 5}),
    "an empty reference": one({"$ref": ""}),
    "a reference that is no address": one({"$ref": "not a % ref"}),
    "a dynamic reference": one({"$dynamicRef": "#node"}, **{"$dynamicAnchor": "node"}),
    "an old recursive reference": one({"$recursiveRef": "#"}, **{"$recursiveAnchor": True}),
    "a reference with words": one({"$ref": "#/$defs/A", "description": "Which."}, defs={"A": of("x", x=TEXT)}),
    "a reference with a default": of(a={"$ref": "#/$defs/A", "default": "x"}) | {"$defs": {"A": {"enum": ["x", "y"]}}},
    "a required reference with a default": one(
        {"$ref": "#/$defs/A", "default": "red"}, defs={"A": {"enum": ["red", "blue"]}}
    ),
    "a required reference with words and a default": one(
        {"$ref": "#/$defs/A", "description": "Which color", "default": "red"},
        defs={"A": {**TEXT, "enum": ["red", "blue"], "description": "A color."}},
    ),
    "a recursive reference with a default": one(
        ref("Node"),
        defs={
            "Node": of(
                "next",
                next={"anyOf": [ref("Node"), NONE], "default": None},
                other={"$ref": "#/$defs/Node", "default": {}},
            )
        },
    ),
    "a reference with a constraint": one({"$ref": "#/$defs/A", "maxLength": 3}, defs={"A": {**TEXT, "minLength": 1}}),
    "a reference with a tighter constraint": one(
        {"$ref": "#/$defs/A", "maxLength": 3}, defs={"A": {**TEXT, "maxLength": 9}}
    ),
    "a reference with members": one({"$ref": "#/$defs/A", **of("y", y=WHOLE)}, defs={"A": of("x", x=TEXT)}),
    "a recursive reference with words": of(next={"$ref": "#", "description": "The next one."}),
    "unused definitions": one(TEXT, defs={"A": of(x=ref("Gone")), "B": 3}),
    "recursive through allOf": one(ref("A"), defs={"A": of(b={"allOf": [ref("A")], "description": "One more."})}),
    "recursive through a map of allOf": one(
        ref("A"), defs={"A": {"type": "object", "additionalProperties": {"allOf": [ref("A"), {"minProperties": 1}]}}}
    ),
    "recursive through the root and allOf": one(
        ref("A"), defs={"A": {"anyOf": [of("a", a={"$ref": "#"}, b={"allOf": [ref("A")]})]}}
    ),
    "a reference bomb": bomb(31),
    "a reference bomb of choices": bomb(31, "anyOf"),
    "a reference bomb of rules": bomb(31, "allOf"),
    "a reference bomb at the root": {**bomb(31, "anyOf"), "$ref": "#/$defs/D0"},
    # the root
    "nothing": {},
    "no type": {"properties": {"a": TEXT}, "required": ["a"]},
    "only a title": {"title": "Arguments"},
    "an object that may be missing": {"type": ["object", "null"], "properties": {"a": TEXT}},
    "a list of one type": {"type": ["object"], "properties": {"a": TEXT}},
    "root of another type": {"type": "string"},
    "root of an unknown type": {"type": "Arguments", "properties": {"a": TEXT}},
    "an array at the root": {"type": "array", "items": TEXT},
    "oneOf at the root": {"type": "object", "oneOf": [of("a", a=TEXT), of("b", b=WHOLE)]},
    "anyOf at the root": {"anyOf": [of("a", a=TEXT), of("a", "b", a=WHOLE, b=WHOLE), NONE]},
    "anyOf of requirements": {**of(a=TEXT, b=TEXT), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "allOf at the root": {"type": "object", "allOf": [of("a", a=TEXT), ref("B")], "$defs": {"B": of("b", b=WHOLE)}},
    "allOf and anyOf at the root": {**of(c=NONE), "allOf": [of(a=TEXT)], "anyOf": [of(b=TEXT), of(b=WHOLE)]},
    "not at the root": {**of(a=TEXT, b=TEXT), "not": {"required": ["a", "b"]}},
    "if at the root": {
        **of(a=TEXT, b=TEXT),
        "if": of(a={"const": "x"}),
        "then": {"required": ["b"]},
        "else": of(b=WHOLE),
    },
    "enum at the root": {**of(a=TEXT), "enum": [{"a": "x"}, {"a": "y"}]},
    "const at the root": {**of(a=TEXT), "const": {"a": "x"}},
    "choices of choices": {"anyOf": [{"oneOf": [of(a=TEXT), {"allOf": [of(b=WHOLE)]}]}, {"not": of(c=TEXT)}]},
    "an empty choice": {**of(a=TEXT), "anyOf": [], "oneOf": []},
    "a choice of anything": {**of(a=TEXT), "anyOf": [True, {}]},
    "an impossible rule": {**of(a=TEXT), "allOf": [False]},
    "dependentRequired": {**of(a=TEXT, b=TEXT), "dependentRequired": {"a": ["b"]}},
    "dependentSchemas": {**of(a=TEXT), "dependentSchemas": {"a": of("b", b=TEXT)}},
    "old dependencies": {**of(a=TEXT, b=TEXT), "dependencies": {"a": ["b"], "b": of(c=TEXT)}},
    "items of an object": {**of(a=TEXT), "items": {}},
    "members of a text": one({**TEXT, "properties": {"x": {}}, "additionalProperties": TEXT, "required": ["x"]}),
    "words of other types at the root": {**of(a=TEXT), "items": {}, "minLength": 1, "prefixItems": [True]},
    "sizes of the root": {**of(a=TEXT), "minProperties": 1, "maxProperties": 3},
    "draft 4": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "id": "http://a.b/c",
        **one({**WHOLE, "minimum": 0, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False}),
    },
    "draft 7": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "http://a.b/c",
        **one({"type": "array", "items": [TEXT, WHOLE], "additionalItems": False}),
    },
    "a vocabulary": {"$schema": DRAFT, "$id": "urn:x", "$comment": "Ours.", "$vocabulary": {}, **one(TEXT)},
    # combinators further in
    "allOf of one": one({"allOf": [ref("A")], "description": "Which."}, defs={"A": of("x", x=TEXT)}),
    "allOf of two objects": one({"allOf": [of("x", x=TEXT), {**of("y", y=WHOLE), "description": "Second."}]}),
    "allOf of two objects, closed": one(
        {"allOf": [{**of(x=TEXT), "additionalProperties": False}, {**of(y=TEXT), "additionalProperties": False}]}
    ),
    "allOf of limits": one({"type": "string", "allOf": [{"minLength": 2}, {"maxLength": 5}]}),
    "allOf that cannot hold": one({"allOf": [TEXT, WHOLE]}),
    "allOf of references to itself": one(ref("A"), defs={"A": {"allOf": [ref("A"), of(x=TEXT)]}}),
    "oneOf with discriminator": one({"oneOf": [CAT, DOG], "discriminator": {"propertyName": "kind"}}),
    "oneOf of references with discriminator": one(
        {
            "oneOf": [ref("Cat"), ref("Dog")],
            "discriminator": {"propertyName": "kind", "mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"}},
        },
        defs={"Cat": CAT, "Dog": DOG},
    ),
    "oneOf next to members": one({**of("x", x=TEXT), "oneOf": [of("y", y=TEXT), of("z", z=WHOLE)]}),
    "anyOf next to a type": one(
        {"type": "string", "anyOf": [{"minLength": 3}, {"enum": ["x"]}], "description": "Which."}
    ),
    "anyOf and oneOf": one({"anyOf": [TEXT, WHOLE], "oneOf": [{"minLength": 1}, {"minimum": 1}]}),
    "anyOf with null": of(a={"anyOf": [TEXT, NONE], "default": None, "title": "A", "description": "Which."}),
    "anyOf of one": one({"anyOf": [TEXT]}),
    "anyOf of only null": one({"anyOf": [NONE]}),
    "anyOf of the same": one({"anyOf": [TEXT, TEXT, {"type": ["string"]}]}),
    "anyOf of nothing": one({"anyOf": []}),
    "anyOf of anyOf": one({"anyOf": [{"anyOf": [TEXT, WHOLE]}, {"anyOf": [NONE, of(x=TEXT)]}]}),
    "anyOf of const": one({"anyOf": [{"const": "a", "title": "First"}, {"const": "b", "description": "Second"}]}),
    "oneOf of const of any type": one({"oneOf": [{"const": 1}, {"const": "x"}, {"const": None}, {"const": True}]}),
    "not": one({"not": TEXT}),
    "not next to a type": one({"type": "string", "not": {"enum": ["x"]}}),
    "not a not": one({"not": {"not": {}}}),
    "if further in": one(
        {**of(x=TEXT), "if": of(x={"const": "1"}), "then": of("y", y=TEXT), "else": {"required": ["z"]}}
    ),
    "then without if": one({**of(x=TEXT), "then": {"required": ["x"]}}),
    # consts and enums
    **{f"const {value!r}": one({"const": value}) for value in ("x", 1, 1.5, True, None, ["x", 1], {"x": 1}, "", [])},
    "const with a type": one({"type": "integer", "const": 3}),
    "const that may be missing": of(a={"type": "string", "const": "x", "default": "x"}),
    "const that cannot be": one({"type": "integer", "const": "x"}),
    "enum": one({"type": "string", "enum": ["x", "y"]}),
    "enum without a type": one({"enum": ["x", "y"], "description": "Which."}),
    "enum that may be missing": of(a={"type": "string", "enum": ["x", "y"], "default": "x"}),
    "enum with null": one({"enum": ["x", None]}),
    "enum with null and types": one({"type": ["string", "null"], "enum": ["x", None]}),
    "enum with null but not in the type": one({"type": "string", "enum": ["x", None]}),
    "enum of null": one({"enum": [None]}),
    "enum of integers": one({"type": "integer", "enum": [1, 2, 3]}),
    "enum of integers without a type": one({"enum": [1, 2, 3]}),
    "enum of numbers": one({"type": "number", "enum": [0.5, 1]}),
    "enum of booleans": one({"type": "boolean", "enum": [True]}),
    "mixed enum": one({"enum": [1, "x", None, True, 2.5, ["x"], {"x": 1}]}),
    "mixed enum with one type": one({"type": "string", "enum": [1, "x"]}),
    "enum of texts that say integers": one({"type": "integer", "enum": ["1", "2"]}),
    "enum of objects": one({"type": "object", "enum": [{"x": 1}, {"x": 2}]}),
    "enum of arrays": one({"type": "array", "items": WHOLE, "enum": [[1], [2]]}),
    "empty enum": one({"type": "string", "enum": []}),
    "empty enum without a type": one({"enum": []}),
    "enum with nothing in it": one({"type": "string", "enum": ["", "x"]}),
    "enum of one empty text": one({"type": "string", "enum": [""]}),
    "enum with doubles": one({"type": "string", "enum": ["x", "x"]}),
    "large enum": one({"type": "string", "enum": [f"value-{index:05}" for index in range(600)]}),
    "too large enum": one({"type": "integer", "enum": list(range(1_500))}),
    "enum that is no list": one({"type": "string", "enum": "x"}),
    "enum as an object": one({"type": "string", "enum": {"x": 1}}),
    "enum of labels": one({"type": "integer", "enum": [1, 2], "x-enumNames": ["one", "two"]}),
    # arrays and tuples
    "array of anything": one({"type": "array"}),
    "array of anything, said": one({"type": "array", "items": {}}),
    "array of anything, true": one({"type": "array", "items": True}),
    "array of nothing": one({"type": "array", "items": False}),
    "items without a type": one({"items": TEXT}),
    "array of arrays": one({"type": "array", "items": {"type": "array", "items": {"type": "array", "items": WHOLE}}}),
    "tuple": one({"type": "array", "prefixItems": [TEXT, WHOLE], "minItems": 2, "maxItems": 2}),
    "tuple with more": one({"type": "array", "prefixItems": [TEXT, of(x=WHOLE)], "items": {"type": "boolean"}}),
    "tuple, closed": one({"type": "array", "prefixItems": [TEXT], "items": False}),
    "tuple of equals": one({"type": "array", "prefixItems": [WHOLE, WHOLE], "minItems": 2, "maxItems": 2}),
    "empty tuple": one({"type": "array", "maxItems": 0, "minItems": 0}),
    "old tuple": one({"type": "array", "items": [TEXT, WHOLE]}),
    "old tuple with more": one({"type": "array", "items": [TEXT, WHOLE], "additionalItems": NONE}),
    "old empty tuple": one({"type": "array", "items": []}),
    "contains": one({"type": "array", "items": {}, "contains": WHOLE, "minContains": 1, "maxContains": 2}),
    "unique items": one({"type": "array", "items": TEXT, "uniqueItems": True, "minItems": 2, "maxItems": 9}),
    "unevaluated items": one({"type": "array", "prefixItems": [TEXT], "unevaluatedItems": False}),
    "array or null": of(a={"type": ["array", "null"]}),
    # objects
    "free object": one({"type": "object"}),
    "free object, said": one({"type": "object", "additionalProperties": True}),
    "free object with a schema": one({"type": "object", "additionalProperties": {}}),
    "map": one({"type": "object", "additionalProperties": WHOLE}),
    "map of objects": one({"type": "object", "additionalProperties": of("x", x=TEXT)}),
    "map next to members": one({**of("x", x=TEXT), "additionalProperties": WHOLE}),
    "empty object": one({"type": "object", "properties": {}, "additionalProperties": False}),
    "object or null": of(a={"type": ["object", "null"]}),
    "object with members or null": of(a={**of("x", x=TEXT), "type": ["object", "null"]}),
    "members without a type": one({"properties": {"x": TEXT}, "required": ["x"]}),
    "required without members": one({"type": "object", "required": ["x"]}),
    "required that is not there": {**of(a=TEXT), "required": ["a", "b"]},
    "required twice": {**of(a=TEXT), "required": ["a", "a"]},
    "required that is not there, closed": {**of(a=TEXT), "required": ["b"], "additionalProperties": False},
    "pattern properties": one({"type": "object", "patternProperties": {"^x-": TEXT}, "additionalProperties": False}),
    "pattern properties at the root": {**of(a=TEXT), "patternProperties": {"^x-": WHOLE}},
    "property names": one({"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}, "additionalProperties": WHOLE}),
    "unevaluated properties": one({"allOf": [of(x=TEXT)], "unevaluatedProperties": False}),
    "sizes of objects": one({"type": "object", "minProperties": 1, "maxProperties": 3}),
    "dependentRequired further in": one({**of(x=TEXT, y=TEXT), "dependentRequired": {"x": ["y"]}}),
    "open and closed": one({**of(x={**of(y=TEXT), "additionalProperties": True}), "additionalProperties": False}),
    "odd names of members": of(
        **dict.fromkeys(("Content-Type", "$ref", "type", "properties", "a.b", "a b", "", "1", "天气", "x" * 80), TEXT)
    ),
    "members named like keywords": one(
        of(
            "enum",
            enum=TEXT,
            items={"type": "array", "items": TEXT},
            anyOf=WHOLE,
            **{"$defs": TEXT, "required": TEXT, "default": TEXT},
        )
    ),
    "a member named like a definition": of(definitions=ref("A")) | {"$defs": {"A": of(definitions=TEXT)}},
    # anything and nothing
    "anything": one({}),
    "anything, described": of(a={"description": "Whatever."}),
    "true": one(True),
    "false": one(False),
    "anything that may be missing": of(a={"default": 3}, b=True),
    # types
    **{
        f"type {'|'.join(kinds)}": one({"type": list(kinds)})
        for kinds in itertools.combinations(("string", "integer", "object", "array", "null"), 2)
    },
    "all types": one({"type": ["string", "number", "integer", "boolean", "object", "array", "null"]}),
    "no types": one({"type": []}),
    "type twice": one({"type": ["string", "string"]}),
    "null": one(NONE),
    "null that may be missing": of(a=NONE),
    **{
        f"type {word!r}": one({"type": word, "description": "Of another language."})
        for word in [*OTHER_TYPES.split(), ""]
    },
    "dict with members": one({"type": "dict", "properties": {"x": {"type": "float"}}, "required": ["x"]}),
    "dict at the root": {"type": "dict", "properties": {"x": {"type": "tuple", "items": {"type": "float"}}}},
    "types of other languages in a list": one({"type": ["float", "None", "any"]}),
    "map of another language": one({"type": "HashMap", "additionalProperties": {"type": "long"}}),
    "array of another language": one({"type": "ArrayList", "items": {"type": "String"}}),
    "a type that is a schema": one({"type": {"type": "string"}}),
    "a type that is a number": one({"type": 3}),
    "a type that is null": one({"type": None}),
    # dialects of other tools
    "nullable": of(
        "a",
        a={**TEXT, "nullable": True},
        b={**of(x=TEXT), "nullable": True},
        c={"$ref": "#/properties/b", "nullable": True},
    ),
    "nullable enum": one({"type": "string", "enum": ["x"], "nullable": True}),
    "not nullable": one({**TEXT, "nullable": False}),
    "required on a member": of(a={**TEXT, "required": True}, b={**TEXT, "required": False}),
    "required on an object member": of(a={**of(x={**TEXT, "required": True}), "required": True}),
    "required as a text": {**of(a=TEXT), "required": "a"},
    "required as true": {**of(a=TEXT), "required": True},
    "required as null": {**of(a=TEXT), "required": None},
    "required of other things": {**of(a=TEXT), "required": [1, None, "a", ["a"]]},
    "optional": of(a={**TEXT, "optional": True}),
    "exclusive limits of draft 4": one(
        {**WHOLE, "minimum": 1, "exclusiveMinimum": True, "maximum": 5, "exclusiveMaximum": True}
    ),
    "exclusive limits without limits": one({**WHOLE, "exclusiveMinimum": True, "exclusiveMaximum": False}),
    "example of OpenAPI": one({**TEXT, "example": "x", "xml": {"name": "a"}, "externalDocs": {"url": "https://a.b"}}),
    "unknown keywords": one(
        {**TEXT, "x-note": {"deep": [1]}, "x-order": 1, "unit": "m"}, **{"x-root": True, "strict": True}
    ),
    "a name and a description inside": {**one(TEXT), "name": "f", "title": "F", "description": "Of the schema."},
    "labels": one(
        {
            **TEXT,
            "title": "A",
            "deprecated": True,
            "readOnly": True,
            "writeOnly": False,
            "$comment": "x",
            "examples": ["x"],
        }
    ),
    "content": one({**TEXT, "contentEncoding": "base64", "contentMediaType": "image/png", "contentSchema": {}}),
    "anchors": one({**TEXT, "$anchor": "a", "$id": "urn:a", "$dynamicAnchor": "b"}),
    # limits, formats and defaults
    "limits of numbers": one(
        {
            "type": "number",
            "minimum": 0,
            "maximum": 9,
            "exclusiveMinimum": -1,
            "exclusiveMaximum": 10,
            "multipleOf": 0.5,
        }
    ),
    "limits of integers": of(a={**WHOLE, "minimum": 0, "maximum": 9, "default": 3, "multipleOf": 3}),
    "limits of texts": one({**TEXT, "minLength": 1, "maxLength": 9, "pattern": "^[a-z]+$"}),
    "limits of arrays": one({"type": "array", "items": {**TEXT, "minLength": 1}, "minItems": 1, "maxItems": 3}),
    "limits as texts": one({**WHOLE, "minimum": "0", "maximum": None}),
    "limits that cannot be": one({**TEXT, "minLength": -1, "maxLength": 1.5}),
    "limits of zero": one({"type": "number", "multipleOf": 0}),
    "limits of another type": one({**TEXT, "minimum": 1, "items": TEXT, "properties": {"x": TEXT}}),
    "huge limits": one({**WHOLE, "minimum": -(2**63), "maximum": 2**63}),
    "pattern with lookahead": one({**TEXT, "pattern": "^(?=.*x)(?!y).*$"}),
    "pattern with backreference": one({**TEXT, "pattern": r"^(a)\1$"}),
    "pattern of Python": one({**TEXT, "pattern": r"(?P<year>\d{4})\Z"}),
    "pattern that is none": one({**TEXT, "pattern": "("}),
    **{f"format {word}": of(a={**TEXT, "format": word}) for word in FORMATS.split()},
    "formats of numbers": of(
        a={**WHOLE, "format": "int64"}, b={"type": "number", "format": "double"}, c={**WHOLE, "format": "date-time"}
    ),
    "a format that is none": one({**TEXT, "format": 3}),
    "defaults everywhere": of(
        a={**TEXT, "default": "x"},
        b={**WHOLE, "default": None},
        c={"type": "array", "items": TEXT, "default": []},
        d={**of(x={**TEXT, "default": "y"}), "default": {"x": "z"}},
        e={"default": 1.5},
        f={"anyOf": [TEXT, NONE], "default": None},
        g={"$ref": "#/$defs/G", "default": {"k": 1}},
        h={"type": "boolean", "default": False},
        i={**WHOLE, "default": "three"},
    )
    | {"$defs": {"G": {"type": "object", "additionalProperties": WHOLE, "default": {}}}, "default": {"a": "x"}},
    "a default that is required": one({**TEXT, "default": "x"}),
    "a long default": of(a={**TEXT, "default": "x" * 5_000}),
    # names and words
    "properties as a list": {"type": "object", "properties": []},
    "properties as null": {"type": "object", "properties": None},
    "properties as a list further in": one({"type": "object", "properties": [], "required": []}),
    "a member that is words": of(a="string"),
    "a member that is null": of(a=None),
    "a member that is a list": of(a=["string", "null"]),
    "a member that is a number": one(3),
    "definitions that are a list": {**one(TEXT), "$defs": []},
    "combinators that are no lists": one({"anyOf": TEXT, "oneOf": None, "allOf": "x"}),
    "branches that are no schemas": one({"anyOf": ["string", None, 3, TEXT]}),
    "items that are words": one({"type": "array", "items": "string"}),
    "items that are null": one({"type": "array", "items": None}),
    "additionalProperties as words": one({"type": "object", "additionalProperties": "string"}),
    "description that is a number": one({**TEXT, "description": 5}, description=["x"]),
    "description that is null": one({**TEXT, "description": None, "title": None}, title=3),
    "half a character": one({**TEXT, "description": "a\ud800", "enum": ["\udc00"]}),
    "words with quotes": one({**TEXT, "description": 'Say "hi"\n```json\n{}\n```', "enum": ['"', "\\", "\n"]}),
    # sizes
    "deep": deep(9),
    "too deep": deep(24),
    "far too deep": deep(150),
    "deep choices": one({"anyOf": [{"anyOf": [{"anyOf": [{"anyOf": [{"anyOf": [{"anyOf": [TEXT, NONE]}]}]}]}]}]}),
    "wide": of(
        *(f"m{index}" for index in range(300)),
        **{f"m{index}": {**TEXT, "description": f"Number {index}."} for index in range(300)},
    ),
    "wide, all optional": of(**{f"m{index}": {**WHOLE, "default": index} for index in range(300)}),
    "many optional members": of(**{f"m{index}": TEXT for index in range(25)}),
    "many unions": of(
        *(f"m{index}" for index in range(17)), **{f"m{index}": {"type": ["string", "null"]} for index in range(17)}
    ),
    "many definitions": of(**{f"m{index}": {"$ref": f"#/$defs/D{index}"} for index in range(100)})
    | {"$defs": {f"D{index}": of("x", x=TEXT) for index in range(100)}},
}

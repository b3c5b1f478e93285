"""Building blocks of schemas. Their keys are taken from the readers, so that none is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Schema = Mapping[str, Any]
DRAFT = "http://json-schema.org/draft-07/schema#"
"""Version of JSON Schema that editors of TOML support as well."""

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
WHOLE: Schema = {"type": "integer"}
CELL: Schema = {"type": ["number", "string"]}
EXPRESSION: Schema = {"type": ["integer", "string"]}
"""Schema of an integer, or an expression of integers."""


def list_of(of: Schema, least: int = 0) -> Schema:
    """Return the schema of an array with at least ``least`` items ``of``."""
    return {"type": "array", "items": of, **({"minItems": least} if least else {})}


def either(*ways: Schema) -> Schema:
    """Return the schema of a value that fits any of the schemas."""
    return {"anyOf": list(ways)}


def table_of(of: Schema) -> Schema:
    """Return the schema of a table with any keys, whose values are ``of``."""
    return {"type": "object", "additionalProperties": of}


def one_of(words: Iterable[object]) -> Schema:
    """Return the schema of one of these values."""
    return {"enum": list(words)}


def closed_table(
    keys: Iterable[str], of: Mapping[str, Schema], required: Iterable[str] = (), **more: Any
) -> Schema:
    """Return the schema of a table with no other keys; a key without a schema is an error."""
    properties = {key: of[key] for key in keys}
    needed = {"required": sorted(required)} if required else {}
    return {
        "type": "object", "properties": properties, "additionalProperties": False, **needed, **more,
    }  # fmt: skip


def annotate(schema: Schema, text: str) -> Schema:
    """Return ``schema`` with the description that an editor shows beside the key."""
    return {**schema, "description": text}


def at(name: str) -> Schema:
    """Return a reference to a definition that a schema uses in several places."""
    return {"$ref": f"#/definitions/{name}"}


STRINGS = either(TEXT, list_of(TEXT))
EXPRESSIONS = either(EXPRESSION, {**list_of(EXPRESSION, 1), "maxItems": 8})
EXTENT = either(EXPRESSION, {**list_of(EXPRESSION, 1), "maxItems": 3})


def document(name: str, version: int, title: str, schema: Schema, **definitions: Schema) -> Schema:
    """Return a whole schema; ``version`` grows with changes that make valid files invalid."""
    return {
        "$schema": DRAFT,
        "$id": f"urn:perfassert:schema:{name}:{version}",
        "title": title,
        **schema,
        **({"definitions": definitions} if definitions else {}),
    }

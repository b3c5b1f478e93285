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
"""An integer, or an expression of such."""


def list_of(of: Schema, least: int = 0) -> Schema:
    """An array of items ``of``, at least ``least`` of them."""
    return {"type": "array", "items": of, **({"minItems": least} if least else {})}


def either(*ways: Schema) -> Schema:
    """A value that fits any of the schemas."""
    return {"anyOf": list(ways)}


def table_of(of: Schema) -> Schema:
    """A table of any keys whose values are ``of``."""
    return {"type": "object", "additionalProperties": of}


def one_of(words: Iterable[object]) -> Schema:
    """One of these values."""
    return {"enum": list(words)}


def closed_table(
    keys: Iterable[str], of: Mapping[str, Schema], required: Iterable[str] = (), **more: Any
) -> Schema:
    """A table with no other keys; one without a schema in ``of`` is an error here."""
    properties = {key: of[key] for key in keys}
    needed = {"required": sorted(required)} if required else {}
    return {
        "type": "object", "properties": properties, "additionalProperties": False, **needed, **more,
    }  # fmt: skip


def annotate(schema: Schema, text: str) -> Schema:
    """``schema`` with the description that an editor shows beside the key."""
    return {**schema, "description": text}


def at(name: str) -> Schema:
    """Return a reference to a definition that a schema uses in several places."""
    return {"$ref": f"#/definitions/{name}"}


STRINGS = either(TEXT, list_of(TEXT))
EXPRESSIONS = either(EXPRESSION, {**list_of(EXPRESSION, 1), "maxItems": 8})
EXTENT = either(EXPRESSION, {**list_of(EXPRESSION, 1), "maxItems": 3})


def document(name: str, version: int, title: str, schema: Schema, **definitions: Schema) -> Schema:
    """A whole schema; ``version`` grows with what is no longer valid or means something else."""
    return {
        "$schema": DRAFT,
        "$id": f"urn:perfassert:schema:{name}:{version}",
        "title": title,
        **schema,
        **({"definitions": definitions} if definitions else {}),
    }

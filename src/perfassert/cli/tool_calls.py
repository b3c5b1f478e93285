"""Schema of a tool's arguments as JSON Schema, and calls of tools by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from threading import Lock
from typing import Any, Union, get_args, get_origin, get_type_hints

from perfassert.cli.tools import TOOLS
from perfassert.errors import ExpectationFailed, Interface, PerfAssertError, close_matches

_ONE_AT_A_TIME = Lock()
"""Lock of the model's caches, which one thread at a time may use."""
_TYPES = {str: "string", int: "integer", bool: "boolean", dict: "object", list: "array"}


def tool_schema(tool: Callable[..., Any]) -> dict[str, Any]:
    """Return the schema of a tool's arguments; unknown names are errors.

    >>> from perfassert.cli.tools import compare
    >>> schema = tool_schema(compare)
    >>> schema["required"], schema["properties"]["tolerance"]
    (['base', 'head'], {'type': 'string', 'default': '2 %'})
    """
    hints = get_type_hints(tool)
    properties, required = {}, []
    for name, parameter in inspect.signature(tool).parameters.items():
        properties[name] = _type_schema(hints[name])
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
        elif parameter.default is not None:
            properties[name]["default"] = parameter.default
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _type_schema(hint: Any) -> dict[str, Any]:
    origin, inner = get_origin(hint), [a for a in get_args(hint) if a is not type(None)]
    if hint is Any:
        return {}
    if origin in (dict, list):
        key = "additionalProperties" if origin is dict else "items"
        return {"type": _TYPES[origin], key: _type_schema(inner[-1])}
    if inner:
        each = [_type_schema(a) for a in inner]
        return each[0] if len(each) == 1 else {"anyOf": each}
    return {"type": _TYPES[hint]}


def describe_tools() -> list[dict[str, Any]]:
    """Return name, description and input schema of every tool."""
    return [
        {"name": name, "description": describe_tool(tool), "input_schema": tool_schema(tool)}
        for name, tool in TOOLS.items()
    ]


def describe_tool(tool: Callable[..., Any]) -> str:
    """Return a tool's docstring as one paragraph."""
    return " ".join((inspect.getdoc(tool) or "").split())


def call_tool(name: object, arguments: object) -> dict[str, Any]:
    """Call a tool with what a client sent.

    Raises :class:`~perfassert.errors.PerfAssertError` for an unknown tool, and for arguments that
    it does not take; and whatever the tool raises.
    """
    if not isinstance(name, str) or name not in TOOLS:
        near = close_matches(str(name), TOOLS) or f"; tools: {', '.join(TOOLS)}"
        raise PerfAssertError(f"unknown tool {name!r}{near}")
    tool, given = TOOLS[name], {} if arguments is None else arguments
    if not isinstance(given, dict):
        raise PerfAssertError(f"{name}: arguments must be an object, by name")
    schema = tool_schema(tool)
    for key, value in given.items():
        if key not in schema["properties"]:
            near = close_matches(key, schema["properties"])
            raise PerfAssertError(f"{name}: unknown argument {key!r}{near}")
        if not _fits(value, get_type_hints(tool)[key]):
            raise PerfAssertError(f"{name}: {key} must be {_describe(schema['properties'][key])}")
    if missing := [key for key in schema["required"] if key not in given]:
        raise PerfAssertError(f"{name}: {missing[0]} is missing")
    with _ONE_AT_A_TIME:
        return tool(**given)


def error_text(error: Exception) -> str:
    """Return an error's text for clients; for an internal error only its class name."""
    if isinstance(error, PerfAssertError):
        return error.text_for(Interface.TOOL)
    if isinstance(error, ExpectationFailed):
        return str(error)
    return f"internal error: {type(error).__name__}"


def _fits(value: object, hint: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin is Union or (inner and origin not in (dict, list)):
        return any(_fits(value, a) for a in inner)
    if origin is list:
        return isinstance(value, list) and all(_fits(v, inner[0]) for v in value)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(v, inner[1]) for v in value.values())
    if hint is int and isinstance(value, bool):
        return False
    return isinstance(value, hint)


def _describe(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_describe(each) for each in schema["anyOf"])
    if schema["type"] == "array":
        return f"a list, each {_describe(schema['items'])}" if schema["items"] else "a list"
    return {"object": "an object", "integer": "an integer"}.get(
        schema["type"], f"a {schema['type']}"
    )

"""``perfassert mcp``: the tools of ``perfassert serve`` over the Model Context Protocol."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

from perfassert.cli.command import add_command
from perfassert.errors import PerfAssertError

_SERVERS = (("mcp.server.mcpserver", "MCPServer"), ("mcp.server.fastmcp", "FastMCP"))
"""Module and class of the server in the official SDK, for version 2 and for version 1."""
_INSTRUCTIONS = (
    "Predicts CUDA kernels without a GPU. kernels lists those of a file; predict says how long a "
    "launch takes, what limits it, and its headroom over the speed of light; advise and rank say "
    "what to change. An answer whose confidence is guessed is no evidence."
)


def add(commands: Any) -> None:
    """Register the command."""
    parser = add_command(
        commands, "mcp", "serve tools to agents over the Model Context Protocol",
        "A server over standard input and output with the tools kernels, predict, explain, advise, "
        "whatif, rank, compare, diff and devices. Only files below the working directory are read. "
        "Needs the extra mcp.",
        "",
    )  # fmt: skip
    parser.set_defaults(command=_serve)


def _serve(options: argparse.Namespace) -> int:
    from perfassert.cli.tools import confine

    confine()
    server = _make_server()
    server.run("stdio")
    return 0


def _make_server() -> Any:
    from perfassert.cli.tool_calls import describe_tool
    from perfassert.cli.tools import TOOLS

    server_class, tool_error = _import_sdk()
    server = server_class("perfassert", instructions=_INSTRUCTIONS)
    for name, tool in TOOLS.items():
        server.add_tool(
            _as_text(tool, tool_error), name=name, description=describe_tool(tool),
            structured_output=False,
        )  # fmt: skip
    return server


def _import_sdk() -> tuple[Any, type[Exception]]:
    """Return the SDK's server class, and its error class whose text is shown to clients."""
    for module, name in _SERVERS:
        try:
            errors = import_module(f"{module}.exceptions")
            return getattr(import_module(module), name), errors.ToolError
        except ImportError:
            continue
    raise PerfAssertError('perfassert mcp needs the SDK; pip install "perfassert[mcp]"')


def _as_text(
    tool: Callable[..., dict[str, Any]], tool_error: type[Exception]
) -> Callable[..., str]:
    """Wrap a tool: its result becomes one line of JSON, its errors the command line's text."""
    from perfassert.cli.tool_calls import call_tool, error_text

    @wraps(tool)
    def run(**arguments: Any) -> str:
        try:
            return json.dumps(call_tool(tool.__name__, arguments))
        except Exception as error:
            raise tool_error(error_text(error)) from None

    run.__annotations__ = {**tool.__annotations__, "return": "str"}
    return run

"""Which operation class an opcode belongs to: one data table per architecture family."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

from perfassert.toml import loads

UNKNOWN = "int32"
"""What an opcode that no table has is taken for."""
_FAMILIES = ((100, "blackwell"), (90, "hopper"), (80, "ampere"), (0, "volta"))


def operation_class(opcode: str, arch: str) -> str | None:
    """The class of ``"LDG.E.64"`` on ``"sm_80"``; None for an unknown opcode."""
    table = _table(_family(arch))
    base, *modifiers = opcode.split(".")
    for modifier in modifiers:
        found = table.get(f"{base}.{modifier}")
        if found:
            return found
    return table.get(base)


def _family(arch: str) -> str:
    number = int("".join(c for c in arch if c.isdigit()) or 0)
    return next(name for least, name in _FAMILIES if number >= least)


@lru_cache(maxsize=8)
def _table(family: str) -> dict[str, str]:
    text = files("perfassert.frontends.cuda").joinpath(f"opcodes/{family}.toml").read_text("utf-8")
    data = loads(text)
    table = dict(_table(data["inherits"])) if "inherits" in data else {}
    for operation, opcodes in data["classes"].items():
        table.update(dict.fromkeys(opcodes.split(), operation))
    return table

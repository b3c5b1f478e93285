"""Meaning of opcodes, as classes and roles: one data table per architecture family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from perfassert.kernel.roles import Role
from perfassert.toml.tables import loads

UNKNOWN = "int32"
"""Class that stands in for an opcode that no table has."""
_FAMILIES = ((100, "blackwell"), (90, "hopper"), (80, "ampere"), (0, "volta"))
_ANY = "*"


@dataclass(frozen=True, slots=True)
class OpcodeTable:
    """Opcodes of one architecture family. ``classes``: by opcode; ``roles``: by opcode (``"*"``:
    any), the modifiers that it must have and its role then; ``unsourced``: opcodes whose cost no
    source gives, so that their class stands in; ``longest_sleep`` in nanoseconds."""

    classes: Mapping[str, str]
    roles: Mapping[str, tuple[tuple[frozenset[str], Role], ...]]
    unsourced: frozenset[str] = frozenset()
    longest_sleep: int = 0


@lru_cache(maxsize=4096)
def operation_class(opcode: str, arch: str) -> str | None:
    """Return the class of ``"LDG.E.64"`` on ``"sm_80"``; None for an unknown opcode."""
    table = opcode_table(_family(arch)).classes
    base, *modifiers = opcode.split(".")
    for modifier in modifiers:
        operation = table.get(f"{base}.{modifier}")
        if operation:
            return operation
    return table.get(base)


def is_unsourced(opcode: str, arch: str) -> bool:
    """Return True if the class of ``"MATCH.ANY"`` is assumed for want of a measurement."""
    return opcode.partition(".")[0] in opcode_table(_family(arch)).unsourced


def longest_sleep(arch: str) -> int:
    """Return the nanoseconds after which a warp wakes up, however long it was to sleep."""
    return opcode_table(_family(arch)).longest_sleep


def opcode_roles(opcode: str, arch: str) -> frozenset[Role]:
    """Return the roles of an opcode (``"MUFU.RCP"``) on an architecture (``"sm_80"``)."""
    table = opcode_table(_family(arch)).roles
    base, *modifiers = opcode.split(".")
    candidates = (*table.get(base, ()), *table.get(_ANY, ()))
    return frozenset(role for needed, role in candidates if needed.issubset(modifiers))


@lru_cache(maxsize=64)
def _family(arch: str) -> str:
    number = int("".join(c for c in arch if c.isdigit()) or 0)
    return next(name for least, name in _FAMILIES if number >= least)


@lru_cache(maxsize=8)
def opcode_table(family: str) -> OpcodeTable:
    """Return the table of ``"volta"``, ``"ampere"``, …, with what it inherits."""
    text = (
        files("perfassert.frontends.machine").joinpath(f"opcodes/{family}.toml").read_text("utf-8")
    )
    data = loads(text)
    inherited = opcode_table(data["inherits"]) if "inherits" in data else OpcodeTable({}, {})
    classes = dict(inherited.classes)
    for operation, opcodes in data["classes"].items():
        classes.update(dict.fromkeys(opcodes.split(), operation))
    roles = dict(inherited.roles)
    for role, opcodes in data.get("roles", {}).items():
        for opcode in opcodes.split():
            base, *modifiers = opcode.split(".")
            roles[base] = (*roles.get(base, ()), (frozenset(modifiers), Role(role)))
    unsourced = inherited.unsourced.union(data.get("unsourced", "").split())
    longest = data.get("longest_sleep", inherited.longest_sleep)
    return OpcodeTable(classes, roles, unsourced, longest)

"""Called PTX functions put in place of their calls, so that a kernel is one list of instructions.

The names of a copy get the number of its call; its parameters are those of the caller. What calls
itself, or has no body, stays a call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from perfassert.frontends.cuda.ptx_text import Module, PtxInstruction, Routine, Variable, callee

_NAME = re.compile(r"[%\w$]+(?:\.[xyzw])?")
_MOST = 200_000  # instructions; beyond, calls stay calls
_LIST = re.compile(r"\(([^)]*)\)")


def inlined(module: Module) -> Routine:
    """The entry with what it calls in place of the calls."""
    return _Inliner(module).routine(module.entry, (module.entry.name,))


class _Inliner:
    def __init__(self, module: Module) -> None:
        self.functions = module.functions
        self.calls = 0
        self.size = 0

    def routine(self, routine: Routine, around: tuple[str, ...]) -> Routine:
        """``around``: the routines whose copies this one is part of."""
        if not any(self.taken(i, around) for i in routine.instructions):
            self.size += len(routine.instructions)
            return routine
        merged = _Merged(routine)
        for instruction in routine.instructions:
            merged.starts(instruction.index)
            if not self.taken(instruction, around):
                merged.add(instruction)
                continue
            name = callee(instruction)
            body = self.routine(self.functions[name], (*around, name))
            self.calls += 1
            merged.call(instruction, body, f"$c{self.calls}")
        merged.starts(len(routine.instructions))
        return merged.routine()

    def taken(self, instruction: PtxInstruction, around: tuple[str, ...]) -> bool:
        name = callee(instruction)
        return bool(name) and name in self.functions and name not in around and self.size < _MOST


class _Merged:
    """A routine that grows by the bodies of what it calls."""

    def __init__(self, routine: Routine) -> None:
        self.own = routine
        self.instructions: list[PtxInstruction] = []
        self.places: dict[int, int] = {}
        self.labels: dict[str, int] = {}
        self.tables = dict(routine.tables)
        self.registers = dict(routine.registers)
        self.variables = list(routine.variables)

    def starts(self, index: int) -> None:
        self.places[index] = len(self.instructions)

    def add(self, instruction: PtxInstruction) -> None:
        self.instructions.append(replace(instruction, index=len(self.instructions)))

    def call(self, instruction: PtxInstruction, body: Routine, suffix: str) -> None:
        end = f"$end{suffix}"
        if instruction.guard is not None:
            name, negated = instruction.guard
            jump = PtxInstruction(0, instruction.line, "bra", (end,), (name, not negated))
            self.add(jump)
        names = _names(body, suffix, _passed(instruction, body))
        first = len(self.instructions)
        for one in body.instructions:
            self.add(_copied(one, names, end))
        self.labels.update({names[n]: first + i for n, i in body.labels.items()})
        self.labels[end] = len(self.instructions)
        for label, targets in body.tables.items():
            self.tables[names[label]] = tuple(names[t] for t in targets)
        for name, kind in body.registers.items():  # "n" ends the name of a numbered family
            self.registers.update({names[name]: kind, f"{names[name]}n": kind})
        self.variables += [replace(v, name=names[v.name]) for v in body.variables]

    def routine(self) -> Routine:
        labels = {name: self.places[index] for name, index in self.own.labels.items()}
        return replace(
            self.own,
            instructions=tuple(self.instructions),
            labels={**labels, **self.labels},
            tables=self.tables,
            registers=self.registers,
            variables=tuple(self.variables),
        )


def _passed(call: PtxInstruction, body: Routine) -> dict[str, str]:
    """Formal → actual: results and parameters."""
    name = callee(call)
    at = call.operands.index(name)
    pairs: dict[str, str] = {}
    for formal, operand in (
        (body.results, call.operands[0] if at else "()"),
        (body.parameters, call.operands[at + 1] if len(call.operands) > at + 1 else "()"),
    ):
        found = _LIST.search(operand)
        actual = [a.strip() for a in found[1].split(",")] if found else []
        pairs.update(zip((v.name for v in formal), actual, strict=False))
    return pairs


def _names(body: Routine, suffix: str, passed: Mapping[str, str]) -> dict[str, str]:
    """What is called otherwise in the copy; registers of a family are told by their look."""
    own = [*body.labels, *body.tables, *body.registers, *(_named(body.variables))]
    return {**{name: name + suffix for name in own}, **passed}


def _named(variables: tuple[Variable, ...]) -> list[str]:
    return [v.name for v in variables]


def _copied(one: PtxInstruction, names: Mapping[str, str], end: str) -> PtxInstruction:
    def renamed(found: re.Match[str]) -> str:
        text = found[0]
        if text in names:
            return names[text]
        family = text.rstrip("0123456789")
        return f"{names[family]}n{text[len(family) :]}" if family in names else text

    guard = one.guard
    if guard is not None:
        guard = (_NAME.sub(renamed, guard[0]), guard[1])
    if one.parts[0] == "ret":
        return replace(one, opcode="bra", operands=(end,), guard=guard)
    operands = tuple(_NAME.sub(renamed, o) for o in one.operands)
    return replace(one, operands=operands, guard=guard)

"""Explanation of compiled code per source line: instructions, accesses, loops, open questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

from perfassert.kernel.executed import Extremes, IssueCounts
from perfassert.kernel.program import Program, ProgramInstruction
from perfassert.prediction.prediction import PredictionValues, assumption_data
from perfassert.report.expressions import access_text, parameter_names, value_text
from perfassert.report.tables import Table, Text, join, table
from perfassert.report.trust import confidence
from perfassert.source import Assumption


@dataclass(slots=True)
class SourceLine:
    """A source line: its instructions by class, and its accesses as text with their count."""

    place: str
    instructions: int = 0
    classes: dict[str, int] = field(default_factory=dict)
    accesses: dict[tuple[str, str], int] = field(default_factory=dict)
    open_ends: dict[str, None] = field(default_factory=dict)
    costs: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    """(wavefronts, sectors) per warp instruction."""


Costs = Mapping[int, Sequence[tuple[float, float]]]
"""Instruction address → (wavefronts, sectors) per warp instruction of each of its accesses."""


def lines(program: Program, costs: Costs) -> list[SourceLine]:
    """Return the program's lines in the order of the source."""
    by_place: dict[tuple[str, int], SourceLine] = {}
    for instruction in reachable_instructions(program):
        span = instruction.span
        key = (span.file, span.line) if span else ("", 0)
        place = span.short if span else "(no line)"
        line = by_place.setdefault(key, SourceLine(place))
        line.instructions += 1
        line.classes[instruction.operation] = line.classes.get(instruction.operation, 0) + 1
        known = costs.get(instruction.index, ())
        for i, access in enumerate(instruction.accesses):
            kind = f"{access.space} {'atomic' if access.atomic else access.direction.value}"
            text = (kind, access_text(program, access))
            line.accesses[text] = line.accesses.get(text, 0) + 1
            if i < len(known):
                line.costs[text] = known[i]
            if access.unresolved:
                line.open_ends[access.unresolved] = None
    return [by_place[key] for key in sorted(by_place)]


def reachable_instructions(program: Program) -> Iterator[ProgramInstruction]:
    """Yield the instructions of all basic blocks that are not skipped as slow paths."""
    for number in sorted(program.blocks):
        block = program.blocks[number]
        if not block.skipped:
            yield from program.instructions[block.start : block.stop]


def closed_form_share(program: Program) -> tuple[int, int]:
    """Return the number of global accesses with an address in closed form, and of all."""
    accesses = [
        a for i in reachable_instructions(program) for a in i.accesses if a.space == "global"
    ]
    return sum(not a.unresolved for a in accesses), len(accesses)


def text(
    kernel: str,
    program: Program,
    costs: Costs,
    assumptions: Sequence[Assumption],
    prediction: PredictionValues | None = None,
    issued: Mapping[int, IssueCounts] = MappingProxyType({}),
) -> Text:
    """Return the output of ``perfassert explain``; ``prediction`` is the launch's, if any.

    ``issued``: instruction address → executions by the executed warps.
    """
    rows = []
    for line in lines(program, costs):
        classes = ", ".join(f"{n} {c}" for c, n in sorted(line.classes.items()))
        rows.append((line.place, line.instructions, classes))
    parts: list[str | Table | Text] = [
        f"{kernel} on {program.arch}: {sum(r[1] for r in rows)} instructions, "
        f"{program.code_bytes} B of code",
        table(("line", "instructions", "classes"), rows),
    ]
    touching = [
        (line.place, kind, f"{count}× {what}" if count > 1 else what, *_cost(line, (kind, what)))
        for line in lines(program, costs)
        for (kind, what), count in line.accesses.items()
    ]
    if touching:
        parts.append(table(("line", "access", "address", "wavefronts", "sectors"), touching))
    executed = [
        (place, *(_extremes(x) for x in (of.executions, of.lanes, of.sectors)))
        for place, of in executed_lines(program, issued).items()
    ]
    if executed:
        header = ("line", "executions of a warp", "active lanes", "sectors")
        title = "Executed warps, fewest/median/most:"
        parts.append(join([title, table(header, executed)], "\n"))
    resolved, total = closed_form_share(program)
    if total:
        parts.append(f"{resolved} of {total} global accesses in closed form")
    names = parameter_names(program)
    for loop in program.loops:
        where = loop.name or "?"
        trips = value_text(program.symbols, loop.trips, names) if loop.trips else "unknown"
        why = f" ({loop.reason})" if loop.reason else ""
        parts.append(f"loop k{loop.index} at {where}: {trips} iterations{why}")
    if noted := _all_assumptions(program, assumptions):
        parts.append("Assumptions:\n" + "\n".join(f"- {a}" for a in noted))
    if prediction is not None:
        parts.append(confidence(prediction))
    return join(parts)


def executed_lines(program: Program, issued: Mapping[int, IssueCounts]) -> dict[str, IssueCounts]:
    """Return the executions per source line, as counted in the executed warps.

    A line has the counts of its most executed instruction, and the most sectors of any of its
    accesses.
    """
    by_place: dict[str, IssueCounts] = {}
    for instruction in sorted(
        reachable_instructions(program), key=lambda i: (i.span is None, str(i.span))
    ):
        executed = issued.get(instruction.address)
        if executed is None or instruction.span is None:
            continue
        place = instruction.span.short
        before = by_place.get(place, executed)
        most = max(before, executed, key=lambda x: x.executions[1])
        known = [x.sectors for x in (before, executed) if x.sectors is not None]
        sectors = max(known, key=lambda x: x[1], default=None)
        by_place[place] = replace(most, sectors=sectors)
    return by_place


def _extremes(values: Extremes | None) -> str:
    return "" if values is None else "/".join(f"{v:.3g}" for v in values)


def _cost(line: SourceLine, key: tuple[str, str]) -> tuple[str, str]:
    if key not in line.costs:
        return "", ""
    wavefronts, sectors = line.costs[key]
    return f"{wavefronts:.3g}", f"{sectors:.3g}" if sectors else ""


def _known_costs(line: SourceLine, key: tuple[str, str]) -> dict[str, float | None]:
    return dict(zip(("wavefronts", "sectors"), line.costs.get(key, (None, None)), strict=True))


def _all_assumptions(program: Program, assumptions: Sequence[Assumption]) -> tuple[Assumption, ...]:
    """Return the assumptions of the code and of the launch without duplicates."""
    return tuple(dict.fromkeys((*program.assumptions, *assumptions)))


def listing(program: Program) -> Table:
    """Return the SASS with stall counts, barriers, and the instructions that each wait is for."""
    rows = []
    setters: dict[int, list[int]] = {}
    for i in reachable_instructions(program):
        blamed = [s for b in i.waits for s in setters.get(b, ())]
        waits = "".join(str(b) for b in i.waits)
        rows.append(
            (
                i.index, i.text, i.operation, i.stall, i.sets if i.sets >= 0 else "",
                i.frees if i.frees >= 0 else "", waits, " ".join(f"←{b}" for b in blamed),
            )
        )  # fmt: skip
        for barrier in i.waits:
            setters.pop(barrier, None)
        for barrier in (i.sets, i.frees):
            if barrier >= 0:
                setters.setdefault(barrier, []).append(i.index)
    header = ("", "instruction", "class", "stall", "sets", "frees", "waits", "for")
    return table(header, rows)


def to_dict(
    kernel: str,
    program: Program,
    costs: Costs,
    assumptions: Sequence[Assumption],
    prediction: PredictionValues | None = None,
    issued: Mapping[int, IssueCounts] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the same as plain data; ``wavefronts`` and ``sectors`` are null without a launch."""
    resolved, total = closed_form_share(program)
    names = parameter_names(program)
    return {
        "kernel": kernel,
        "arch": program.arch,
        "global_accesses": total,
        "in_closed_form": resolved,
        "lines": [
            {
                "place": line.place,
                "instructions": line.instructions,
                "classes": line.classes,
                "accesses": [
                    {
                        "kind": kind,
                        "address": what,
                        "count": count,
                        **_known_costs(line, (kind, what)),
                    }
                    for (kind, what), count in line.accesses.items()
                ],
                "unresolved": list(line.open_ends),
            }
            for line in lines(program, costs)
        ],
        "loops": [
            {
                "trips": value_text(program.symbols, loop.trips, names) if loop.trips else None,
                "line": str(loop.span) if loop.span else None,
                "name": loop.name,
                "reason": loop.reason,
            }
            for loop in program.loops
        ],
        "executed": {place: asdict(of) for place, of in executed_lines(program, issued).items()},
        "assumptions": list(map(str, _all_assumptions(program, assumptions))),
        "confidence": prediction.confidence if prediction else None,
        "confidence_reasons": [
            assumption_data(a) for a in (prediction.confidence_reasons if prediction else ())
        ],
    }

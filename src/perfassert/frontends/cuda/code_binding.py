"""Compiled code bound to a launch: graph, accesses, and the launch that its volumes belong to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from perfassert.frontends.binding.arguments import Arguments
from perfassert.frontends.binding.assumed_values import (
    assumed_value_texts,
    check_assumed_values,
    read_assumed_values,
)
from perfassert.frontends.binding.binder import Binder, check_trip_counts
from perfassert.frontends.binding.bound_accesses import bind_accesses
from perfassert.frontends.binding.executed_accesses import with_touched
from perfassert.frontends.binding.grid_strides import normalise_strides
from perfassert.frontends.binding.idle import note_idleness
from perfassert.frontends.graph.executed_counts import contradiction
from perfassert.frontends.graph.launch_graph import launch_graph, representative_block
from perfassert.hardware.matrix import WARPS_OF_A_GROUP, MatrixVariant
from perfassert.kernel.description import BoundKernel, LongestBlocks
from perfassert.kernel.executed import Executed, SampleWork
from perfassert.kernel.field import Field
from perfassert.kernel.graph import InstructionGraph, Node
from perfassert.kernel.launch import Launch
from perfassert.kernel.program import Program
from perfassert.kernel.roles import Role
from perfassert.source import CORRECTED, DISAGREEMENT, Assumption

if TYPE_CHECKING:
    from perfassert.frontends.cuda.kernels import BuiltCode, Rare

_GUESSED_ERROR = 0.5
"""Largest relative error of the executed blocks' mean work; beyond it, the mean is a guess."""
_REPORTED_ERROR = 0.1
"""Relative error of the mean work that needs no assumption; the standard error is 5 % then."""
_FLOPS = {
    "FFMA": 2, "FADD": 1, "FMUL": 1, "DFMA": 2, "DADD": 1, "DMUL": 1,
    "HFMA2": 4, "HADD2": 2, "HMUL2": 2, "FFMA2": 4, "FADD2": 2, "FMUL2": 2,
}  # fmt: skip
_DTYPES = {"D": "float64", "F": "float32", "H": "float16"}
_MATRIX_DTYPES = {"f64": "float64", "tf32": "float32", "s8": "int32", "s4": "int32", "b1": "int32"}


def bind_code(
    code: BuiltCode,
    launch: Launch,
    warp_size: int,
    executed: Executed | None,
    rare: Rare,
    least: bool,
) -> tuple[BoundKernel, Launch]:
    """Bind code to a launch; see :meth:`~perfassert.frontends.cuda.kernels.BuiltCode.bind`."""
    kernel, work, contradicted = _bind(code, launch, warp_size, executed, rare, least)
    if executed is not None and contradicted and not executed.corrections:
        # Closed forms of some instructions do not fit counts of others, so all are counted.
        corrections = (Assumption(f"{CORRECTED}: {contradicted}"),)
        executed = replace(executed, corrections=corrections)
        kernel, work, _ = _bind(code, launch, warp_size, executed, rare, least)
    return kernel, work


def _bind(
    code: BuiltCode,
    launch: Launch,
    warp_size: int,
    executed: Executed | None,
    rare: Rare,
    least: bool,
) -> tuple[BoundKernel, Launch, str]:
    """Bind as :func:`bind_code`; also return how graph and executed counts differ, if so."""
    binary, hints, contradicted = code.built, code.hints, ""
    code.check_limits(launch)
    program = code.program(rare)
    if executed and (sides := _executed_slow_paths(program, executed.work)):
        program = code.program(rare, sides)
    arguments = Arguments(program, launch, binary.kernel)
    check_trip_counts(program, hints.trip_counts)
    values = read_assumed_values(hints.assume, program)
    binder = Binder(
        program, launch, arguments, hints.trip_counts, values, warp_size, executed, least
    )
    for text, place in assumed_value_texts(hints.assume, program):
        binder.assume(text, place)
    bound, touches = bind_accesses(binder)
    bound = with_touched(binder, bound, touches)
    bound = tuple(map(arguments.place_access, bound))
    note_idleness(binder, bound)
    effective_launch, bound = normalise_strides(binder, bound)
    stands = representative_block(program, binder, warp_size, launch.working_grid(effective_launch))
    graph = launch_graph(program, binder, touches, warp_size, stands.block)
    longest = None
    if stands.longest is not None and executed is None:
        noted = dict(binder.assumptions)
        blocks = launch_graph(program, binder, touches, warp_size, stands.longest.block)
        longest = LongestBlocks(blocks, stands.longest.count)
        binder.assumptions = noted
    flops, dtype, arithmetic = _arithmetic(graph, program, launch, warp_size)
    unmasked = prod(launch.working_grid(effective_launch))
    if stands.amount is not None:  # the mean of all threads
        flops *= stands.amount / unmasked
    if executed is not None:
        warps = -(-launch.threads_per_block // warp_size)
        share, idle = (stands.amount or unmasked) / executed.of, 1 - unmasked / executed.of
        if executed.blocks == 1:  # the executed block is the simulated one
            share, idle = 1.0, 0.0
        contradicted = contradiction(graph, executed.work, warps, share, idle)
        if contradicted and executed.corrections:
            binder.assume(contradicted, stands_for=DISAGREEMENT)
        if executed.work_error > _REPORTED_ERROR:
            binder.assume(
                f"blocks differ in work: the mean of {executed.sample} may be off by "
                f"{executed.work_error:.0%}",
                stands_for="sample" if executed.work_error > _GUESSED_ERROR else "",
            )
    elif not rare:
        read = binder.assumed_and_read
        check_assumed_values(hints.assume, program, read)
    aligned = {n: b.alignment for n, b in arguments.buffers.items()}
    names = dict.fromkeys(a.field for a in bound)
    kernel = BoundKernel(
        name=binary.kernel,
        fields={n: Field.pointer(n, aligned.get(n, 256)) for n in names},
        flops=flops,
        dtype=dtype,
        registers=code.registers,
        shared_bytes=binary.shared_bytes,
        updates_per_thread=hints.updates_per_thread,
        assumptions=(*_relevant_assumptions(program, graph), *binder.assumptions),
        graph=graph,
        bound=bound,
        spill_bytes=binary.local_bytes,
        program=program,
        code_bytes=program.code_bytes,
        working=stands.working,
        amount=stands.amount,
        idle=stands.idle,
        longest=longest,
        standing=stands.block,
        executed=executed,
        rare=rare,
        arithmetic=arithmetic,
    )
    return kernel, effective_launch, contradicted


def _relevant_assumptions(program: Program, graph: InstructionGraph) -> Iterator[Assumption]:
    """Yield the assumptions about the code, without those about calls that the launch skips."""
    made = {assumption for node in graph.nodes for assumption in node.rests_on}
    return (a for a in program.assumptions if a.stands_for != "call" or a in made)


def _executed_slow_paths(program: Program, work: SampleWork | None) -> Rare:
    """Return the sides of jumps that a sample took into blocks assumed never to be executed."""
    if work is None:
        return frozenset()
    never = {index for index, block in program.blocks.items() if block.skipped}
    starts = (program.instructions[program.blocks[index].start] for index in never)
    if not any(any(work.counts.get(start.address, ())) for start in starts):
        return frozenset()
    jumps = {
        program.instructions[block.stop - 1].address
        for block in program.blocks.values()
        if not block.skipped and never.intersection(block.successors)
    }
    return frozenset(side for side in work.sides if side[0] in jumps)


def _arithmetic(
    graph: InstructionGraph, program: Program, launch: Launch, warp_size: int
) -> tuple[float, str, str]:
    """Return flops per thread, their main type, and the matrix class of that type if any."""
    warps = -(-launch.threads_per_block // warp_size)
    counts: dict[str, float] = {}
    variants = {name: MatrixVariant.from_name(name) for name in {n.operation for n in graph.nodes}}
    for node in graph.nodes:
        name, flops = _flops(node, variants[node.operation], program, warp_size)
        if flops:
            times = graph.executions(node, warps)
            counts[name] = counts.get(name, 0.0) + times * flops / warps
    if not counts:
        return 0.0, "float32", ""
    most = max(counts, key=lambda name: counts[name])
    variant = MatrixVariant.from_name(most)
    if variant is None:
        return sum(counts.values()), most, ""
    return sum(counts.values()), _MATRIX_DTYPES.get(variant.input, "float16"), most


def _flops(
    node: Node, variant: MatrixVariant | None, program: Program, warp_size: int
) -> tuple[str, float]:
    """Return type or matrix variant of an instruction, and its flops per lane."""
    if node.operation == "move":
        return "", 0.0
    if variant is not None:
        together = WARPS_OF_A_GROUP if variant.unit == "wgmma" else 2 if variant.paired else 1
        return variant.name, 2 * variant.multiply_adds / together / warp_size
    instruction = program.instructions[node.program]
    if Role.BUILDS_CONSTANT in instruction.roles:
        return "", 0.0
    base = instruction.opcode.partition(".")[0]
    return (_DTYPES[base[0]], _FLOPS[base]) if base in _FLOPS else ("", 0.0)

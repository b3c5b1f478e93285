"""Numbering of what warps execute, as nodes and loops of a graph, with the edges of barriers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Union

from perfassert.frontends.graph.items import GraphItem
from perfassert.kernel.graph import (
    BodyItem,
    Edge,
    EdgeSource,
    InstructionGraph,
    ItemKind,
    Loop,
    Node,
    replace_costs,
)
from perfassert.kernel.memo import Memo
from perfassert.kernel.program import ProgramInstruction
from perfassert.kernel.roles import CountedWait, Role

_OFF = "move"
"""Class of an instruction that all lanes of a warp have predicated off: it takes an issue slot."""


@dataclass(frozen=True, slots=True)
class _Setter:
    """Instruction that a barrier waits for; ``carried``: by a loop, from so many iterations
    before."""

    item: GraphItem
    carried: int = -1
    distance: int = 1


_State = dict[Union[int, str], list[list[_Setter]]]
"""Pending setters by barrier, or by register where the hardware itself holds back its readers."""
_ROUNDS = 16
"""Iterations after which groups of copies are no longer followed."""
_ASYNC = -2  # asynchronous copies that no group has collected yet
_HELD = -3  # what the warp waits for before it issues anything else


def number_items(
    items: Sequence[GraphItem], touches: Mapping[int, tuple[int, ...]], memo: Memo
) -> InstructionGraph:
    """Return the graph of items of a program, to which ``memo`` belongs.

    Its nodes are those of the launch before if this one executes the same instructions, however
    often its loops run.
    """
    loops: list[GraphItem] = []
    key = _content(items, loops), tuple(touches.items())
    graph = memo.latest("graph", key, lambda: _Numbering(touches).graph(items))
    own = (
        replace(x, trips=item.trips, rests_on=item.rests_on, each=item.each)
        for x, item in zip(graph.loops, loops, strict=True)
    )
    return replace_costs(graph, loops=tuple(own))


def _content(items: Sequence[GraphItem], loops: list[GraphItem]) -> tuple[Hashable, ...]:
    """Return all on which nodes and the nesting of loops depend, and add the loops in order."""
    parts: list[Hashable] = []
    for item in items:
        if item.instruction is None:
            loops.append(item)
            parts.append(_content(item.body, loops))
        else:
            parts.append(
                (item.instruction.index, item.active, item.warps, item.signal, item.use is None,
                 item.sleep, item.rests_on)
            )  # fmt: skip
    return tuple(parts)


class _Numbering:
    """Conversion of items to nodes and loops, with the edges that barriers mean."""

    def __init__(self, touches: Mapping[int, tuple[int, ...]]) -> None:
        self.touches = touches
        self.nodes: list[Node] = []
        self.loops: list[Loop] = []
        self.chains: list[tuple[int, ...]] = []
        self.interlocked = False

    def graph(self, items: Sequence[GraphItem]) -> InstructionGraph:
        body = self.number(items, ())
        self.walk(items, {}, (), True)
        return InstructionGraph(tuple(self.nodes), tuple(self.loops), tuple(body))

    def number(self, items: Sequence[GraphItem], chain: tuple[int, ...]) -> list[BodyItem]:
        body: list[BodyItem] = []
        for item in items:
            if item.instruction is not None:
                item.number = len(self.chains)
                self.chains.append(chain)
                body.append(BodyItem(ItemKind.NODE, item.number))
            else:
                item.number = len(self.loops)
                around = chain[-1] if chain else -1
                loop = Loop(item.number, around, item.trips, (), item.rests_on, item.each)
                self.loops.append(loop)
                inner = self.number(item.body, (*chain, item.number))
                self.loops[item.number] = replace(loop, body=tuple(inner))
                body.append(BodyItem(ItemKind.LOOP, item.number))
        return body

    def walk(
        self, items: Sequence[GraphItem], state: _State, chain: tuple[int, ...], record: bool
    ) -> _State:
        for item in items:
            if item.instruction is not None:
                self.step(item, item.instruction, state, chain, record)
                continue
            inside = (*chain, item.number)
            after = self.walk(item.body, _copy_state(state), inside, False)
            if record:
                before = set(map(id, _all_setters(state)))
                entry = _copy_state(state)
                for barrier, groups in after.items():
                    entry.setdefault(barrier, []).extend(
                        [_Setter(s.item, item.number) for s in group if s.carried < 0]
                        for group in groups
                        if not before.issuperset(map(id, group))
                    )
                self.carry_groups(item, state, inside, entry)
                self.walk(item.body, entry, inside, True)
            state = after
        return state

    def carry_groups(
        self, loop: GraphItem, state: _State, chain: tuple[int, ...], entry: _State
    ) -> None:
        """Groups that counted waits leave pending for several iterations, as they stand when one
        iteration is like the next."""
        counted = _counted_barriers(loop.body)
        known, before = _copy_state(state), None
        for _ in range(_ROUNDS if counted else 0):
            left = self.walk(loop.body, known, chain, False)
            known = {
                barrier: [[self.older(s, loop.number) for s in group] for group in groups]
                for barrier, groups in left.items()
            }
            shape = {
                b: [[(id(s.item), s.carried, s.distance) for s in g] for g in known.get(b, [])]
                for b in counted
            }
            if shape == before:
                for barrier in counted:
                    entry[barrier] = [*state.get(barrier, []), *known.get(barrier, [])]
                return
            before = shape

    def older(self, setter: _Setter, loop: int) -> _Setter:
        """Return a setter as the next iteration of the loop sees it."""
        if setter.carried == loop:
            return replace(setter, distance=setter.distance + 1)
        inside = setter.carried < 0 and loop in self.chains[setter.item.number]
        return replace(setter, carried=loop) if inside else setter

    def step(
        self, item: GraphItem, instruction: ProgramInstruction, state: _State,
        chain: tuple[int, ...], record: bool,
    ) -> None:  # fmt: skip
        waited: list[_Setter] = []
        for barrier in instruction.waits:
            waited += [s for group in state.pop(barrier, []) for s in group]
        for counted in instruction.counted:
            waited += _all_but_last_groups(state, counted)
        waited += self.held_back(instruction, state)
        if record:
            self.nodes.append(self.node(item, instruction, waited, chain))
        if not item.active:
            return
        self.hold_back(item, instruction, state)
        if Role.COPIES_ASYNCHRONOUSLY in instruction.roles:
            state.setdefault(_ASYNC, []).append([_Setter(item)])
        elif Role.COMMITS_COPIES in instruction.roles:
            copies = [s for group in state.pop(_ASYNC, []) for s in group]
            state.setdefault(0, []).append(copies or [_Setter(item)])
        elif (item.signal is not None and item.signal.copies) or _is_late(instruction):
            return  # its operands are read long before it is complete
        elif instruction.closes >= 0:
            state.setdefault(instruction.closes, []).append([_Setter(item)])
        elif instruction.sets >= 0:
            state.setdefault(instruction.sets, []).append([_Setter(item)])
        elif instruction.frees >= 0:
            state.setdefault(instruction.frees, []).append([_Setter(item)])

    def hold_back(self, item: GraphItem, instruction: ProgramInstruction, state: _State) -> None:
        """Note what waits without a barrier: all later instructions, or a register's readers."""
        if Role.HOLDS_WARP in instruction.roles:
            state[_HELD] = [[_Setter(item)]]
        if Role.INTERLOCKS in instruction.roles:
            self.interlocked = True
            state.update((register, [[_Setter(item)]]) for register in instruction.defines)

    def held_back(self, instruction: ProgramInstruction, state: _State) -> list[_Setter]:
        """Return the setters that the hardware itself waits for: instructions that hold their warp,
        and results of matrix units in registers."""
        if not self.interlocked and _HELD not in state:
            return []
        touched: tuple[int | str, ...] = (_HELD,)
        if self.interlocked:
            touched = (_HELD, *instruction.uses, *instruction.defines)
        return [s for register in touched for group in state.pop(register, []) for s in group]

    def node(
        self, item: GraphItem, instruction: ProgramInstruction, waited: Sequence[_Setter],
        chain: tuple[int, ...],
    ) -> Node:  # fmt: skip
        edges: tuple[Edge, ...] = ()
        if waited:
            setters = {(id(s.item), s.carried, s.distance): s for s in waited}.values()
            edges = tuple(Edge((self.source(setter, chain),)) for setter in setters)
        signal = item.signal if item.active else None
        common = instruction.fence and item.use is None
        fence = common or (signal is not None and signal.waits)
        copies = signal is not None and (signal.copies or _is_late(instruction))
        holds = item.active and Role.HOLDS_WARP in instruction.roles
        return Node(
            item.number,
            "barrier" if instruction.fence else instruction.operation if item.active else _OFF,
            "",
            edges,
            produces=instruction.sets >= 0
            or instruction.closes >= 0
            or fence
            or copies
            or holds
            or Role.INTERLOCKS in instruction.roles,
            loop=chain[-1] if chain else -1,
            warps=None if common else item.warps,
            fence=fence,
            partial=fence,
            space=instruction.accesses[0].space if instruction.accesses else None,
            span=instruction.span,
            stall=max(instruction.stall, 1),
            touches=self.touches.get(instruction.index, ()) if item.active else (),
            program=instruction.index,
            rests_on=(*item.rests_on, *instruction.rests_on),
            signal=signal,
            holds=holds,
            sleep=item.sleep if holds else 0,
        )

    def source(self, setter: _Setter, chain: tuple[int, ...]) -> EdgeSource:
        if setter.carried >= 0:
            return EdgeSource(setter.item.number, setter.carried, setter.distance)
        common = -1
        for own, consumer in zip(self.chains[setter.item.number], chain, strict=False):
            if own != consumer:
                break
            common = own
        return EdgeSource(setter.item.number, common, 0)


def _counted_barriers(items: Sequence[GraphItem]) -> frozenset[int]:
    """Return the barriers of which some wait leaves groups pending."""
    barriers: set[int] = set()
    for item in items:
        if item.instruction is None:
            barriers |= _counted_barriers(item.body)
        else:
            barriers.update(w.barrier for w in item.instruction.counted if w.pending)
    return frozenset(barriers)


def _all_but_last_groups(state: _State, wait: CountedWait) -> list[_Setter]:
    """Return all but the last groups of the barrier."""
    groups = state.get(wait.barrier, [])
    done = groups[: max(0, len(groups) - wait.pending)]
    state[wait.barrier] = groups[len(done) :]
    return [s for group in done for s in group]


def _is_late(instruction: ProgramInstruction) -> bool:
    """Return True if its arrival waits for matrix instructions before it, as that of a commit."""
    return instruction.meets is not None and instruction.meets.late


def _copy_state(state: _State) -> _State:
    return {barrier: list(groups) for barrier, groups in state.items()}


def _all_setters(state: _State) -> list[_Setter]:
    return [s for groups in state.values() for group in groups for s in group]

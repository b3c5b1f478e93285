"""Symbolic execution of a control-flow graph: addresses, guards, trip counts as closed forms.

Blocks are visited once, in reverse postorder, inner loops as one step of the region around them.
Where paths meet, a register whose values differ becomes a selection by the path's condition. At a
loop header every register that the loop changes is a placeholder; when the body has been
evaluated, its recurrence is solved for the loop counter ``k`` = 0, 1, 2, …:

* ``r' = r + s`` with ``s`` unchanged by the loop, and what else :mod:`.recurrences` solves;
* ``r'`` free of ``r``: the value of the iteration before, ``r₀`` in the first;

``r'`` is what it is where the loop goes on: a step that is taken in all iterations but perhaps the
last, as where the next tile is loaded, is taken in each. Anything else is unknown, and said to be.
The trip count is one more than the first ``k`` at which
an exit is taken: of ``a + b · k < 0`` to stay, that is ``⌈−a / b⌉``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from perfassert.frontends.analysis.first_iterations import FirstTrue
from perfassert.frontends.analysis.recurrences import closed_form, entered_ring
from perfassert.frontends.analysis.symbolic_code import SymbolicCode
from perfassert.frontends.machine.control_flow import (
    EXIT,
    BasicBlock,
    ControlEdge,
    Flow,
    NaturalLoop,
)
from perfassert.kernel.expression_pool import Expression, ExpressionPool
from perfassert.kernel.names import LoopCounter

Environment = dict[int, Expression]


@dataclass(slots=True)
class LoopResult:
    """``counter``: its variable; ``trips``: how often the header is entered, None if unknown.

    ``entry``: condition, in the region around it, under which the loop is entered; ``last``:
    blocks that still run in the last iteration (None: not known).
    """

    loop: NaturalLoop
    counter: Expression
    entry: Expression
    trips: Expression | None = None
    reason: str = ""
    last: frozenset[int] | None = None


@dataclass(slots=True)
class Evaluated:
    """Closed forms by instruction, block and loop.

    ``conditions``: of a block, within one iteration of its innermost loop; ``predicates``: of an
    instruction's own guard.
    """

    symbols: ExpressionPool
    addresses: dict[int, tuple[Expression, ...]] = field(default_factory=dict)
    predicates: dict[int, Expression] = field(default_factory=dict)
    conditions: dict[int, Expression] = field(default_factory=dict)
    loops: dict[int, LoopResult] = field(default_factory=dict)
    never: set[int] = field(default_factory=set)

    def guard(self, index: int, block: BasicBlock, flow: Flow) -> Expression:
        """The whole condition under which an instruction runs in an iteration of its loops."""
        s = self.symbols
        result = s.logical_and(self.conditions[block.index], self.predicates.get(index, s.one))
        for loop in flow.chain(block.loop):
            result = s.logical_and(result, self.loops[loop].entry)
        return result


@dataclass(slots=True)
class _Departure:
    """An edge as it was left: registers, and the path's condition within the region.

    ``slow``: what is computed on this path is the same as on others that meet it; ``never``: it is
    taken not to be executed at all.
    """

    edge: ControlEdge
    environment: Environment
    condition: Expression
    slow: bool = False
    never: bool = False


def evaluate(code: SymbolicCode) -> Evaluated:
    """Evaluate ``code``; loop counters are variables."""
    return _Evaluation(code).run()


class _Evaluation:
    def __init__(self, code: SymbolicCode) -> None:
        self.code = code
        self.flow = code.flow
        self.symbols = code.symbols
        self.result = Evaluated(self.symbols)
        self.relevant = self._relevant()
        self.live = self._live()
        self.within: dict[int, list[int]] = {}  # instructions with a record, by loop
        self.children: dict[int, list[int]] = {}
        for loop in self.flow.loops:
            self.children.setdefault(loop.parent, []).append(loop.index)

    def run(self) -> Evaluated:
        self._region(-1, _Departure(ControlEdge(EXIT, 0, False), {}, self.symbols.one))
        self._narrow()
        return self.result

    def _narrow(self) -> None:
        """Make unknown what only arithmetic with wrap-around would give a meaning (a hash)."""
        s, result = self.symbols, self.result

        def narrow(value: Expression) -> Expression:
            if not s.wide(value):
                return value
            terms = [s.polynomial({m: c}) for m, c in value.terms]
            kept = [term for term in terms if not s.wide(term)]
            return s.add(*kept, s.unknown("numbers beyond 64 bits", value))

        def narrow_condition(condition: Expression) -> Expression:
            if not s.wide(condition):
                return condition
            return s.all_of(map(narrow, s.conjuncts(condition)))  # each of them is one atom

        for index, values in result.addresses.items():
            result.addresses[index] = tuple(map(narrow, values))
        for conditions in (result.predicates, result.conditions):
            for index, condition in conditions.items():
                conditions[index] = narrow_condition(condition)
        for loop in result.loops.values():
            loop.entry = narrow_condition(loop.entry)
            if loop.trips is not None and s.wide(loop.trips):
                loop.trips, loop.reason = None, "its end depends on numbers beyond 64 bits"

    def _relevant(self) -> frozenset[int]:
        """Registers that an address, a guard or a branch may depend on."""
        producers: dict[int, set[int]] = {}
        wanted: set[int] = set()
        for block in self.flow.blocks.values():
            for index in range(block.start, block.stop):
                wanted.update(self.code.roots(index))
                defined = self.code.defines(index)
                if defined:
                    used = self.code.uses(index)
                    for register in defined:
                        producers.setdefault(register, set()).update(used)
        stack = list(wanted)
        while stack:
            for register in producers.get(stack.pop(), ()):
                if register not in wanted:
                    wanted.add(register)
                    stack.append(register)
        return frozenset(wanted)

    def _live(self) -> dict[int, tuple[int, ...]]:
        """Relevant registers whose value at the start of a block is read later."""
        code, blocks = self.code, self.flow.blocks
        read: dict[int, set[int]] = {}
        written: dict[int, set[int]] = {}
        for block in blocks.values():
            needs, makes = (
                read.setdefault(block.index, set()),
                written.setdefault(block.index, set()),
            )
            for i in range(block.start, block.stop):
                used = {*code.uses(i), *code.roots(i), *code.guards(i)}
                needs |= (used & self.relevant) - makes
                makes |= set(code.defines(i)) if not code.guards(i) else set()
        live = {number: set(needs) for number, needs in read.items()}
        waiting = list(self.flow.order)
        while waiting:
            number = waiting.pop()
            for edge in self.flow.predecessors[number]:
                more = live[number] - written[edge.source] - live[edge.source]
                if more:
                    live[edge.source] |= more
                    waiting.append(edge.source)
        return {number: tuple(sorted(registers)) for number, registers in live.items()}

    # Regions: a loop's body, or the whole kernel

    def _region(self, loop: int, start: _Departure) -> list[_Departure]:
        """Evaluate the blocks of ``loop`` itself; edges that leave it or go to its header."""
        incoming: dict[int, list[_Departure]] = {start.edge.target: [start]}
        leaving: list[_Departure] = []
        header = self.flow.loops[loop].header if loop >= 0 else EXIT
        members = self.flow.loops[loop].blocks if loop >= 0 else None
        inner = {self.flow.loops[c].header: c for c in self.children.get(loop, ())}
        for number in self.flow.order:
            if members is not None and number not in members:
                continue
            arrived = incoming.pop(number, None)
            if arrived is None:
                continue
            if number in inner:
                departures = self._loop(inner[number], arrived)
            else:
                departures = self._block(self.flow.blocks[number], arrived)
            for departure in departures:
                target = departure.edge.target
                outside = target == EXIT or (members is not None and target not in members)
                if outside or target == header:
                    leaving.append(departure)
                else:
                    incoming.setdefault(target, []).append(departure)
        return leaving

    def _block(self, block: BasicBlock, arrived: Sequence[_Departure]) -> list[_Departure]:
        never = all(d.never for d in arrived)
        slow = all(d.slow for d in arrived) or self.code.is_slow_path(block)
        arrived, condition = self._arrivals(block.index, arrived)
        environment = self._merge(arrived, condition, f"block {block.index}", block.index)
        self.result.conditions[block.index] = condition
        if never:
            self.result.never.add(block.index)
        self.within.setdefault(block.loop, [])
        for index in range(block.start, block.stop):
            self._instruction(index, block, environment)
        departures = self._departures(block, environment, condition)
        for departure in departures:
            departure.never |= never
            departure.slow |= slow | departure.never
        return departures

    def _departures(
        self, block: BasicBlock, environment: Environment, condition: Expression
    ) -> list[_Departure]:
        s = self.symbols
        conditional = len({e.taken for e in block.edges}) > 1
        jump, rare = s.one, None
        if conditional:
            jump = self._predicate(block.stop - 1, environment)
            rare = self._rare_side(block, jump)
        result = []
        taken = [e for e in block.edges if e.taken]
        for edge in block.edges:
            own = condition
            if conditional and rare in (None, edge.taken):
                own = s.logical_and(condition, jump if edge.taken else s.logical_not(jump))
            if edge.taken and len(taken) > 1:
                own = s.logical_and(
                    own, s.unknown(f"which way the jump of block {block.index} goes")
                )
            result.append(_Departure(edge, environment, own, never=rare == edge.taken))
        return result

    def _rare_side(self, block: BasicBlock, jump: Expression) -> bool | None:
        """Return the side of a jump on data that is taken never to be executed: True for jumping,
        None if no side is. Exits and back edges of loops are not considered."""
        members = self.flow.loops[block.loop].blocks if block.loop >= 0 else self.flow.blocks
        targets = {edge.target for edge in block.edges}
        header = self.flow.loops[block.loop].header if block.loop >= 0 else EXIT
        if not targets.issubset(members) or header in targets:
            return None
        undecided = self.symbols.depends_on_data(jump)
        rare = {
            e.taken
            for e in block.edges
            if (self.code.is_rare(block, e) or (undecided and self.code.calls_routine(e)))
            and not self.code.is_executed(block, e)
        }
        return rare.pop() if len(rare) == 1 else None

    def _arrivals(
        self, block: int, arrived: Sequence[_Departure]
    ) -> tuple[Sequence[_Departure], Expression]:
        """Return the departures that reach a block other than by slow paths, and the block's
        condition."""
        arrived = [d for d in arrived if not d.never] or arrived
        condition = self._condition(block, arrived)
        return [d for d in arrived if not d.slow] or arrived, condition

    def _condition(self, block: int, arrived: Sequence[_Departure]) -> Expression:
        """Condition of a block: that of its dominator if no path leads past it, else either way."""
        if len(arrived) == 1:
            return arrived[0].condition
        above = self.flow.dominator.get(block)
        known = self.result.conditions
        if (
            above in known
            and self.flow.blocks[above].loop == self.flow.blocks[block].loop
            and self.flow.postdominates(block, above)
        ):
            return known[above]
        result = self.symbols.zero
        for departure in arrived:
            result = self._logical_or(result, departure.condition)
        return result

    def _logical_or(self, left: Expression, right: Expression) -> Expression:
        """``(c and p) or (c and not p)`` is ``c``."""
        s = self.symbols
        a = {v.index: v for v in s.conjuncts(left)}
        b = {v.index: v for v in s.conjuncts(right)}
        if left is s.zero or right is s.zero:
            return s.logical_or(left, right)
        own_a = [v for i, v in a.items() if i not in b]
        own_b = [v for i, v in b.items() if i not in a]
        common = s.one
        for i, v in a.items():
            if i in b:
                common = s.logical_and(common, v)
        rest_a, rest_b = s.all_of(own_a), s.all_of(own_b)
        return s.logical_and(common, s.logical_or(rest_a, rest_b))

    def _merge(
        self, arrived: Sequence[_Departure], condition: Expression, where: str, block: int
    ) -> Environment:
        """Registers where paths reconverge: selections by what distinguishes the paths."""
        if len(arrived) == 1:
            return dict(arrived[0].environment)
        common = {v.index for v in self.symbols.conjuncts(condition)}
        choices = [
            self.symbols.all_of(
                v for v in self.symbols.conjuncts(d.condition) if v.index not in common
            )
            for d in arrived
        ]
        merged: Environment = {}
        for register in self.live[block]:
            values = [d.environment.get(register) for d in arrived]
            if any(v is None for v in values):
                continue
            result = values[-1]
            for choice, value in zip(choices[-2::-1], values[-2::-1], strict=True):
                if value is not result:
                    result = self._select(choice, value, result, register, where)  # type: ignore[arg-type]
            merged[register] = result  # type: ignore[assignment]
        return merged

    def _select(
        self, choice: Expression, yes: Expression, no: Expression, register: int, where: str
    ) -> Expression:
        if self.symbols.depends_on_data(choice):
            return self.symbols.unknown(f"register {register} at {where}", choice, yes, no)
        return self.symbols.select(choice, yes, no)

    # Instructions

    def _instruction(self, index: int, block: BasicBlock, environment: Environment) -> None:
        def read(register: int) -> Expression:
            return self.symbols.assuming(self._read(register, environment, index), facts)

        code = self.code
        guarded = code.guards(index)
        facts = self._facts(self.result.conditions[block.index])
        if guarded:
            predicate = self._predicate(index, environment)
            facts |= self._facts(predicate)
            self.result.predicates[index] = predicate
            self.within[block.loop].append(index)
        addresses = code.addresses(index, read)
        if addresses:
            self.result.addresses[index] = addresses
            self.within[block.loop].append(index)
        wanted = [r for r in code.defines(index) if r in self.relevant]
        if not wanted:
            return
        values = code.execute(index, read)
        for register in wanted:
            value = values.get(register)
            if value is None:
                value = self.symbols.unknown(f"register {register} at {index}")
            value = self.symbols.assuming(value, facts)
            if guarded:
                kept = self._read(register, environment, index)
                value = self._select(predicate, value, kept, register, f"instruction {index}")
            environment[register] = value

    def _read(self, register: int, environment: Environment, index: int) -> Expression:
        value = self.code.initial(register)
        if value is None:
            value = environment.get(register)
        if value is None:
            name = f"register {register} before {index}"
            value = environment[register] = self.symbols.unknown(name)
        return value

    def _facts(self, condition: Expression) -> frozenset[int]:
        """Return the facts that hold where the condition holds."""
        return frozenset(part.index for part in self.symbols.conjuncts(condition))

    def _implied_facts(self, condition: Expression) -> frozenset[int]:
        """Return the facts that hold where the condition holds, and the choices that it needs to
        hold."""
        s = self.symbols
        facts = self._facts(condition)
        for part in s.conjuncts(condition):
            for atom in (s.atoms[a] for a in sorted(s.free_atoms(part))):
                if atom.function != "select":
                    continue
                chosen = atom.arguments[0]
                for choice, opposite in (
                    (chosen, s.logical_not(chosen)),
                    (s.logical_not(chosen), chosen),
                ):
                    if s.assuming(part, self._facts(opposite)).constant == 0:
                        facts |= self._facts(choice)
        return facts

    def _predicate(self, index: int, environment: Environment) -> Expression:
        return self.code.condition(index, lambda r: self._read(r, environment, index))

    # Loops

    def _loop(self, index: int, arrived: Sequence[_Departure]) -> list[_Departure]:
        s = self.symbols
        loop = self.flow.loops[index]
        slow, never = all(d.slow for d in arrived), all(d.never for d in arrived)
        arrived, entry = self._arrivals(loop.header, arrived)
        before = self._merge(arrived, entry, f"loop {index}", loop.header)
        counter = s.variable(LoopCounter(index))
        result = self.result.loops[index] = LoopResult(loop, counter, entry)
        holders = self._placeholders(loop, before)
        inside = {**before, **holders}
        start = _Departure(ControlEdge(EXIT, loop.header, False), inside, s.one, slow, never)
        mark = len(s.atoms)
        leaving = self._region(index, start)
        back = [d for d in leaving if d.edge.target == loop.header]
        exits = [d for d in leaving if d.edge.target != loop.header]
        solved = self._solve(holders, before, back, counter, mark)
        memo: dict[int, Expression] = {}

        def in_closed_form(value: Expression) -> Expression:
            return s.substitute(value, solved, memo)

        self._close(index, in_closed_form)
        self.code.words.close(in_closed_form)
        for departure in exits:
            departure.condition = in_closed_form(departure.condition)
        decided = self._trips(result, exits)
        if never:
            result.trips, result.reason = s.zero, ""
        after = self._after(result, exits, in_closed_form, decided)
        return [replace(d, slow=slow, never=never) for d in after]

    def _placeholders(self, loop: NaturalLoop, before: Environment) -> Environment:
        changed: dict[int, None] = {}
        for block in sorted(loop.blocks):
            for i in range(self.flow.blocks[block].start, self.flow.blocks[block].stop):
                changed.update(dict.fromkeys(self.code.defines(i)))
        return {
            register: self.code.placeholder(loop.index, register, before.get(register))
            for register in changed
            if register in self.relevant
        }

    def _solve(
        self,
        holders: Environment,
        before: Environment,
        back: Sequence[_Departure],
        counter: Expression,
        mark: int,
    ) -> dict[int, Expression]:
        """Closed forms for the placeholders, by their atoms."""
        s = self.symbols
        following: Environment = {}
        if back:
            again = self._any_departs(back)
            facts = self._implied_facts(again)
            merged = self._merge(back, again, "latch", back[0].edge.target)
            following = {r: s.assuming(merged[r], facts) for r in holders if r in merged}
        pending = {r: (h.terms[0][0][0], following.get(r)) for r, h in holders.items()}
        solved: dict[int, Expression] = {}
        progress = True
        while pending and progress:
            progress = False
            memo: dict[int, Expression] = {}
            open_atoms = {atom for atom, _ in pending.values()}
            for register, (atom, value) in list(pending.items()):
                if value is None or register not in before:
                    continue
                own, first = s.substitute(value, solved, memo), before[register]
                form = self._recurrence(atom, own, first, counter, open_atoms, mark)
                if form is None and s.lone_atom(own) and s.free_atoms(own) & open_atoms == {atom}:
                    form, after = entered_ring(s, atom, own, first, counter) or (None, own)
                    solved |= {own.terms[0][0][0]: after} if form is not None else {}
                if form is not None:
                    solved[atom] = form
                    del pending[register]
                    progress = True
        for register, (atom, _) in pending.items():
            name = s.atoms[counter.terms[0][0][0]].name
            solved[atom] = s.unknown(f"register {register} in {name}", counter)
        return solved

    def _any_departs(self, departures: Sequence[_Departure]) -> Expression:
        result = self.symbols.zero
        for departure in departures:
            result = self._logical_or(result, departure.condition)
        return result

    def _recurrence(
        self,
        atom: int,
        value: Expression,
        first: Expression,
        counter: Expression,
        unsolved: set[int],
        mark: int,
    ) -> Expression | None:
        s = self.symbols
        atoms = s.free_atoms(value)
        others = atoms & (unsolved - {atom})
        k = counter.terms[0][0][0]
        if value.terms == (((atom,), 1),):
            return first
        if others:
            return None
        if atom in atoms:
            return closed_form(s, atom, value, first, counter, mark)
        if any(a >= mark and s.atoms[a].function == "data" for a in atoms):
            return None
        memo: dict[int, Expression] = {}
        before = s.substitute(value, {k: s.add(counter, s.number(-1))}, memo)
        start = s.substitute(value, {k: s.number(-1)}, {})
        if start is first:
            return before
        return s.select(s.compare("==", counter, s.zero), first, before)

    def _close(self, index: int, closed: Callable[[Expression], Expression]) -> None:
        """Put the closed forms into everything recorded inside the loop."""
        result = self.result
        loop = self.flow.loops[index]
        for number in loop.blocks:
            if number in result.conditions:
                result.conditions[number] = closed(result.conditions[number])
        for inner, member in enumerate(self.flow.loops):
            if member.header in loop.blocks:
                for i in self.within.get(inner, ()):
                    if i in result.predicates:
                        result.predicates[i] = closed(result.predicates[i])
                    if i in result.addresses:
                        result.addresses[i] = tuple(map(closed, result.addresses[i]))
                inner_loop = result.loops.get(inner)
                if inner_loop is not None and inner != index:
                    inner_loop.entry = closed(inner_loop.entry)
                    if inner_loop.trips is not None:
                        inner_loop.trips = closed(inner_loop.trips)

    # Trip counts

    def _trips(self, result: LoopResult, exits: Sequence[_Departure]) -> dict[int, Expression]:
        """Set ``result.trips``; by the place of each decided exit, when it is taken."""
        s = self.symbols
        decided: dict[int, Expression] = {}
        partly: list[_Departure] = []
        for place, departure in enumerate(exits):
            own = self._own_condition(place, exits)
            first, whole = FirstTrue(s).of(own, result.counter, len(exits) > 1)
            if first is not None:
                decided[place] = first
            if not whole:
                partly.append(departure)
        if not decided:
            result.reason = self._reason(partly)
            return decided
        last, *others = decided.values()
        for other in others:
            last = s.minimum(last, other)
        result.trips = s.add(last, s.one)
        if partly:
            result.reason = f"{self._reason(partly)}: taken never to leave the loop"
        leave = {exits[place].edge.source for place in decided}
        if len(leave) == 1:
            (source,) = leave
            result.last = frozenset(b for b in result.loop.blocks if not self._behind(b, source))
        return decided

    def _own_condition(self, place: int, exits: Sequence[_Departure]) -> Expression:
        """Return the condition of an exit, without the parts that follow from other exits not being
        taken."""
        s = self.symbols
        parts = s.conjuncts(exits[place].condition)
        own = {part.index for part in parts}
        earlier = set()
        for other, departure in enumerate(exits):
            if other != place:
                missing = [p for p in s.conjuncts(departure.condition) if p.index not in own]
                if len(missing) == 1:
                    earlier.add(s.logical_not(missing[0]).index)
        return s.all_of(part for part in parts if part.index not in earlier)

    def _behind(self, block: int, exit_block: int) -> bool:
        """Return True if a block runs only after the loop was not left at ``exit_block``."""
        return block != exit_block and self.flow.dominates(exit_block, block)

    def _reason(self, undecided: Sequence[_Departure]) -> str:
        for departure in undecided:
            for atom in self.symbols.unknowns(departure.condition):
                return f"its end depends on {self.code.cause_of(atom) or 'data'}"
        return "its end has no closed form" if undecided else "it has no end"

    def _after(
        self,
        result: LoopResult,
        exits: Sequence[_Departure],
        closed: Callable[[Expression], Expression],
        decided: Mapping[int, Expression],
    ) -> list[_Departure]:
        """Departures in terms of the region around: the counter has the value at which the exit is
        taken. Of several decided exits the one that comes first is the way out; one that depends
        on data is none beside one that does not."""
        s = self.symbols
        k = result.counter.terms[0][0][0]
        after = []
        for place, departure in enumerate(exits):
            environment: Environment = {}
            memo: dict[int, Expression] = {}
            last = decided.get(place)
            live = frozenset(self.live.get(departure.edge.target, ()))
            for register, value in departure.environment.items():
                if register not in live:
                    continue
                form = closed(value)
                if k in s.free_atoms(form):
                    if last is not None:
                        form = s.substitute(form, {k: last}, memo)
                    else:
                        form = s.unknown(
                            f"register {register} after loop {result.loop.index}", form
                        )
                environment[register] = form
            condition = s.logical_and(result.entry, self._first_exit_condition(place, decided))
            if len(exits) > 1 and place not in decided:
                which = f"which way loop {result.loop.index} is left"
                condition = s.logical_and(condition, s.unknown(which, departure.condition))
            after.append(_Departure(departure.edge, environment, condition))
        return after

    def _first_exit_condition(self, place: int, decided: Mapping[int, Expression]) -> Expression:
        """Return the condition that an exit is taken before the others; in the same iteration, the
        first one in order is taken."""
        s = self.symbols
        result = s.one
        if place in decided:
            for other, first in decided.items():
                if other != place:
                    relation = "<" if other < place else "<="
                    result = s.logical_and(result, s.compare(relation, decided[place], first))
        return result

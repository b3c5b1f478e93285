"""Random structured programs, as machine code and as what a single thread does.

A program is a list of statements over a few integer variables: assignments, branches, loops with
a bound, breaks, early returns, barriers in uniform code. ``machine_code`` writes it as a compiler
does (a convergence barrier around what may diverge, left by a BREAK on the way out of a loop);
``thread`` interprets it for one thread, without masks.
"""

from dataclasses import dataclass
from random import Random

from perfassert.kernel.machine import (
    Kind,
    MachineCode,
    MachineInstruction,
    Micro,
    Preset,
    PresetSource,
    Relation,
)

VARIABLES = 3
MASK = 0xFFFFFFFF
_OUTCOME = ("fall", "break", "return")


@dataclass(frozen=True)
class Assign:
    number: int
    target: int
    factor: int
    other: int
    constant: int


@dataclass(frozen=True)
class If:
    number: int
    variable: int
    modulus: int
    limit: int
    then: tuple
    orelse: tuple


@dataclass(frozen=True)
class Loop:
    number: int
    counter: int  # a loop counter of its own
    variable: int
    most: int
    body: tuple


@dataclass(frozen=True)
class Break:
    number: int


@dataclass(frozen=True)
class Return:
    number: int


@dataclass(frozen=True)
class Barrier:
    number: int


class Generator:
    def __init__(self, seed):
        self.random = Random(seed)
        self.count = 0
        self.loops = 0

    def next(self):
        self.count += 1
        return self.count - 1

    def program(self):
        parts = []
        for _ in range(self.random.randint(1, 3)):
            parts += self.block(self.random.randint(1, 4), 0, False)
            if not any(isinstance(s, Return) for s in walk(parts)) and self.random.random() < 0.5:
                parts.append(Barrier(self.next()))
        return tuple(parts)

    def block(self, length, depth, inside):
        statements = []
        for _ in range(length):
            kind = self.random.random()
            if kind < 0.45 or depth > 4:
                statements.append(self.assign())
            elif kind < 0.7:
                statements.append(self.branch(depth, inside))
            elif kind < 0.9:
                statements.append(self.loop(depth))
            elif kind < 0.97 and inside:
                statements.append(Break(self.next()))
                break
            elif depth and self.random.random() < 0.3:
                statements.append(Return(self.next()))
                break
        return tuple(statements)

    def assign(self):
        r = self.random
        return Assign(self.next(), r.randrange(VARIABLES), r.choice([1, 3, 5, 7]),
                      r.randrange(VARIABLES), r.randrange(100))  # fmt: skip

    def branch(self, depth, inside):
        r = self.random
        modulus = r.choice([2, 4, 8, 16])
        return If(self.next(), r.randrange(VARIABLES), modulus, r.randrange(modulus + 1),
                  self.block(r.randint(0, 3), depth + 1, inside),
                  self.block(r.randint(0, 2), depth + 1, inside))  # fmt: skip

    def loop(self, depth):
        self.loops += 1
        counter = self.loops - 1
        r = self.random
        return Loop(self.next(), counter, r.randrange(VARIABLES), r.choice([1, 3, 7]),
                    self.block(r.randint(1, 3), depth + 1, True))  # fmt: skip


def walk(statements):
    for s in statements:
        yield s
        for part in ("then", "orelse", "body"):
            yield from walk(getattr(s, part, ()))


def thread(program, variables, counts):
    """Run one thread; ``counts[number]`` is how often it executed each statement."""
    values = list(variables)
    _run(program, values, counts)
    return values


def _run(statements, values, counts):
    for s in statements:
        counts[s.number] += 1
        if isinstance(s, Assign):
            values[s.target] = (values[s.target] * s.factor + values[s.other] + s.constant) & MASK
        elif isinstance(s, If):
            side = s.then if values[s.variable] % s.modulus < s.limit else s.orelse
            outcome = _run(side, values, counts)
            if outcome != "fall":
                return outcome
        elif isinstance(s, Loop):
            for _ in range(values[s.variable] & s.most):
                outcome = _run(s.body, values, counts)
                if outcome == "break":
                    break
                if outcome == "return":
                    return outcome
        elif isinstance(s, Break):
            return "break"
        elif isinstance(s, Return):
            return "return"
    return "fall"


class Assembler:
    """Registers: 1 … variables, then loop counters, a scratch word, a predicate, barriers."""

    def __init__(self, loops):
        self.instructions = []
        self.place_of = {}
        self.counters = VARIABLES + 1
        self.scratch = self.counters + loops
        self.predicate = self.scratch + 1
        self.next_barrier = self.predicate + 1
        self.literals = {}
        self.presets = []

    def literal(self, value):
        if value == 0:
            return 0
        if value not in self.literals:
            register = 1000 + len(self.literals)
            self.literals[value] = register
            self.presets.append(Preset(register, PresetSource.LITERAL, value))
        return self.literals[value]

    def emit(self, *operations, guard=-1, holds=1):
        self.instructions.append([list(operations), guard, holds])
        return len(self.instructions) - 1

    def mark(self, statement):
        self.place_of[statement.number] = self.emit()

    def barrier(self):
        self.next_barrier += 1
        return self.next_barrier - 1

    def patch(self, place, target):
        operations = self.instructions[place][0]
        operations[-1] = Micro(Kind.BRANCH, (), (), (target,))

    def here(self):
        return len(self.instructions)

    def jump(self, guard=-1, holds=1):
        return self.emit(Micro(Kind.BRANCH, (), (), (0,)), guard=guard, holds=holds)

    def block(self, statements, exits, open_):
        """``exits``: jumps that leave the innermost loop; ``open_``: barriers set inside it."""
        for s in statements:
            self.mark(s)
            if isinstance(s, Assign):
                product = Micro(Kind.MULTIPLY, (s.target + 1,), (
                    s.target + 1, self.literal(s.factor), s.other + 1, 0))  # fmt: skip
                if s.other == s.target:
                    product = Micro(Kind.MULTIPLY, (s.target + 1,), (
                        s.target + 1, self.literal(s.factor + 1), 0, 0))  # fmt: skip
                add = Micro(
                    Kind.ADD, (s.target + 1,), (s.target + 1, self.literal(s.constant), 0), (0,)
                )
                self.emit(product, add)
            elif isinstance(s, If):
                self.branch(s, exits, open_)
            elif isinstance(s, Loop):
                self.loop(s)
            elif isinstance(s, Break):
                for barrier in open_:
                    self.emit(Micro(Kind.SYNC_LEAVE, (), (barrier,)))
                exits.append(self.jump())
            elif isinstance(s, Return):
                self.emit(Micro(Kind.EXIT))
            elif isinstance(s, Barrier):
                self.emit(Micro(Kind.BARRIER, (), (0, 0), (0,)))

    def branch(self, s, exits, open_):
        barrier = self.barrier()
        self.emit(Micro(Kind.SYNC_SET, (barrier,)))
        low = Micro(
            Kind.LOGIC, (self.scratch,), (s.variable + 1, self.literal(s.modulus - 1), 0), (0xC0,)
        )
        below = Micro(Kind.COMPARE, (self.predicate,), (self.scratch, self.literal(s.limit)),
                      (Relation.LT, 0))  # fmt: skip
        self.emit(low, below)
        otherwise = self.jump(self.predicate, 0)
        self.block(s.then, exits, [*open_, barrier])
        end = self.jump()
        self.patch(otherwise, self.here())
        self.block(s.orelse, exits, [*open_, barrier])
        self.patch(end, self.here())
        self.emit(Micro(Kind.SYNC_WAIT, (), (barrier,)))

    def loop(self, s):
        barrier, counter = self.barrier(), self.counters + s.counter
        self.emit(Micro(Kind.SYNC_SET, (barrier,)))
        self.emit(Micro(Kind.LOGIC, (counter,), (s.variable + 1, self.literal(s.most), 0), (0xC0,)))
        head = self.emit(
            Micro(Kind.COMPARE, (self.predicate,), (counter, 0), (Relation.EQ, 0))
        )  # fmt: skip
        exits = [self.jump(self.predicate)]
        self.emit(Micro(Kind.ADD, (counter,), (counter, self.literal(MASK), 0), (0,)))
        self.block(s.body, exits, [])
        back = self.jump()
        self.patch(back, head)
        for leave in exits:
            self.patch(leave, self.here())
        self.emit(Micro(Kind.SYNC_WAIT, (), (barrier,)))


def machine_code(program, loops, start):
    """``start``: for each variable a special register, and the factor that it starts from."""
    a = Assembler(loops)
    for variable, (name, factor) in enumerate(start):
        register = 2000 + variable
        a.presets.append(Preset(register, PresetSource.SPECIAL, name=name))
        a.emit(
            Micro(Kind.MULTIPLY, (variable + 1,), (register, a.literal(factor), a.literal(7), 0))
        )
    a.block(program, [], [])
    a.emit(Micro(Kind.EXIT))
    instructions = tuple(
        MachineInstruction(16 * i, tuple(operations), guard, holds)
        for i, (operations, guard, holds) in enumerate(a.instructions)
    )
    code = MachineCode(
        instructions, 2100, frozenset(), tuple(a.presets),
        {16 * i: i for i in range(len(instructions))}, frozenset(), frozenset(), (), {}, 0, 12,
        0x28, 0, 0, 0,
    )  # fmt: skip
    return code, a.place_of

"""Random straight and looped programs over all kinds of operations on registers.

What they compute means nothing; halves of 64-bit numbers are added, compared, shifted and
multiplied as compilers do, and travel through any registers. In the end every thread stores all of
its registers, so that what differs anywhere is seen.
"""

from random import Random
from types import SimpleNamespace

from engines.execution.random_operations import _ORDERED, PURE

from perfassert.frontends.machine.control_flow import EXIT, Jump
from perfassert.frontends.machine.inlining import PlacedInstruction
from perfassert.frontends.toolchain.binary import Parameter
from perfassert.kernel.machine import (
    Kind,
    MachineCode,
    MachineInstruction,
    MemoryOperand,
    Micro,
    ParameterSlot,
    Preset,
    PresetSource,
    Relation,
    Rounding,
    Space,
)

WORDS, PREDICATES, FIRST, PREDICATE = 10, 3, 1, 20
COUNTERS = 30
SPECIALS = {40: "threadIdx.x", 41: "blockIdx.x", 42: "laneid"}
CONSTANTS, LITERALS = 50, 70
BASE, RESULTS = 0x160, 0x160
SIZES = (8, 8, 8, 4, 4, 4)  # results, two numbers of 64 bits, three of 32
SAVED = WORDS + PREDICATES
NUMBERS = (0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 32, 64, 100, 255, 1000, -1, -2, -4, -8, 0x7FFFFFFF,
           -0x80000000, 0x38E38E39, 0x3340, 0x5410, 0x7610, 0x9910)  # fmt: skip
OPERATIONS = {
    **PURE,
    # Amounts and selectors are numbers, as nearly always; integers and floats have 32 bits.
    Kind.SHIFT: ("w", "wnw", PURE[Kind.SHIFT][2]), Kind.PERMUTE: ("w", "wnw", ()),
    Kind.BIT_FIELD: ("w", "nn", (range(2),)), Kind.EXTEND: ("w", "wn", (range(2), range(2))),
    Kind.FROM_INTEGER: ("w", "w0", ((32,), range(2), (32,), Rounding)),
    Kind.TO_INTEGER: ("w", "w0", ((32,), (32,), range(2), Rounding, range(2))),
}  # fmt: skip
COMMON = [Kind.ADD, Kind.MULTIPLY, Kind.MULTIPLY_WIDE, Kind.LOGIC, Kind.SHIFT, Kind.COMPARE,
          Kind.SELECT, Kind.MINIMUM, Kind.MOVE]  # fmt: skip


class Program:
    """A random program. ``machine``: its code; ``placed``, ``jumps``: its flow of control."""

    def __init__(self, seed):
        self.random = Random(seed)
        self.instructions = []
        self.jumps = {}
        self.literals = {}
        self.counters = 0
        self.ties = self.random.random() < 0.5  # loops and guards
        for k in range(WORDS):
            self.emit(Micro(Kind.MOVE, (FIRST + k,), (self.start(),)))
        for k in range(PREDICATES):
            test = (self.start(), self.literal(8))
            self.emit(Micro(Kind.COMPARE, (PREDICATE + k,), test, (Relation.LT, 1)))
        self.block(self.random.randint(4, 16), 0)
        self.store()
        self.machine = self.finished()
        self.placed = [
            PlacedInstruction(SimpleNamespace(index=i, base="OP", span=None), ())
            for i in range(len(self.instructions))
        ]
        self.parameters = tuple(
            Parameter(f"p{n}", sum(SIZES[:n]), size, pointer=n == 0) for n, size in enumerate(SIZES)
        )

    def emit(self, *operations, guard=False, inputs=()):
        register, holds = -1, 1
        if guard and self.ties and self.random.random() < 0.2:
            register, holds = (
                PREDICATE + self.random.randrange(PREDICATES),
                self.random.randrange(2),
            )
        self.instructions.append((operations, register, holds, inputs))
        return len(self.instructions) - 1

    def literal(self, value):
        value &= 0xFFFFFFFF
        return self.literals.setdefault(value, LITERALS + len(self.literals)) if value else 0

    def start(self):
        """Return an initial value of a register: an index, a parameter or a number."""
        r = self.random
        if r.random() < 0.4:
            return r.choice(list(SPECIALS))
        if r.random() < 0.7:
            return CONSTANTS + r.randrange(2, sum(SIZES) // 4)
        return self.literal(r.choice(NUMBERS))

    def source(self, sort):
        r = self.random
        if sort == "0":
            return 0
        if sort == "p":
            return r.choice([PREDICATE + r.randrange(PREDICATES)] * 6 + [0, self.literal(1)])
        if sort == "n" or r.random() < 0.2:
            return self.literal(r.choice(NUMBERS))
        return self.start() if r.random() < 0.15 else FIRST + r.randrange(WORDS)

    def targets(self, sorts):
        found = []
        for sort in sorts:
            register = self.random.choice(
                range(PREDICATE, PREDICATE + PREDICATES) if sort == "p"
                else range(FIRST, FIRST + WORDS)
            )  # fmt: skip
            found.append(register if register not in found else -1)
        return tuple(found)

    def block(self, length, depth):
        r = self.random
        for _ in range(length):
            chance = r.random()
            if chance < 0.45:
                self.plain(r.choice(COMMON if r.random() < 0.6 else list(OPERATIONS)))
            elif chance < 0.9 or depth > 1 or not self.ties:
                r.choice((self.add_pairs, self.extend, self.multiply_pairs, self.compare_pairs,
                          self.shift_pairs, self.scale_pairs, self.choose_pairs))()  # fmt: skip
            elif chance < 0.95:
                self.branch(depth)
            else:
                self.loop(depth)

    def plain(self, kind):
        targets, sources, choices = OPERATIONS[kind]
        detail = tuple(int(self.random.choice(list(c))) for c in choices)
        found = tuple(self.source(s) for s in sources)
        self.emit(Micro(kind, self.targets(targets), found, detail), guard=True)

    # Numbers of 64 bits, half by half

    def word(self):
        return FIRST + self.random.randrange(WORDS)

    def pair(self):
        if self.random.random() < 0.4:
            at = CONSTANTS + 2 * self.random.randrange(1, 3)
            return at, at + 1
        low, high = self.random.sample(range(FIRST, FIRST + WORDS), 2)
        return low, self.random.choice([high, high, 0])

    def pair_of_targets(self):
        return tuple(self.random.sample(range(FIRST, FIRST + WORDS), 2))

    def add_pairs(self):
        (a, above), (b, over), (low, high) = self.pair(), self.pair(), self.pair_of_targets()
        carry = PREDICATE + self.random.randrange(PREDICATES)
        minus = self.random.random() < 0.3
        if minus:
            self.emit(Micro(Kind.LOGIC, (high,), (over, self.literal(-1), 0), (0x3C,)))
            over = high
        if low in (above, over):
            return
        self.emit(Micro(Kind.ADD, (low, carry), (a, b, 0), (2 * minus,)))
        self.emit(Micro(Kind.ADD, (high,), (above, over, 0, carry), (0,)))

    def extend(self):
        """The sign of a word as the high one."""
        low, high = self.pair_of_targets()
        self.emit(Micro(Kind.SHIFT, (high,), (0, self.literal(31), low), (1, 0, 32, 1, 1)))

    def multiply_pairs(self):
        (a, above), (b, over), (low, high) = self.pair(), self.pair(), self.pair_of_targets()
        if {low, high} & {a, above, b, over}:
            return
        self.emit(Micro(Kind.MULTIPLY_WIDE, (low, high), (a, b, 0, 0, 0), (0,)))
        self.emit(Micro(Kind.MULTIPLY, (high,), (above, b, high, 0)))
        self.emit(Micro(Kind.MULTIPLY, (high,), (a, over, high, 0)))

    def compare_pairs(self):
        (a, above), (b, over) = self.pair(), self.pair()
        predicate = PREDICATE + self.random.randrange(PREDICATES)
        relation = self.random.choice(_ORDERED)
        self.emit(Micro(Kind.COMPARE, (predicate,), (a, b), (relation, 0)))
        extended = (relation, self.random.randrange(2))
        self.emit(Micro(Kind.COMPARE_EXTENDED, (predicate,), (above, over, predicate), extended))

    def shift_pairs(self):
        (a, above), (low, high) = self.pair(), self.pair_of_targets()
        amount, right = self.literal(self.random.choice((1, 2, 3, 5, 31, 32))), self.random.random()
        detail = (int(right < 0.5), 0, 64, self.random.randrange(2))
        if low in (a, above):
            return
        self.emit(Micro(Kind.SHIFT, (low,), (a, amount, above), (*detail, 0)))
        self.emit(Micro(Kind.SHIFT, (high,), (a, amount, above), (*detail, 1)))

    def scale_pairs(self):
        """``LEA`` and ``LEA.HI.X``: an index times the size of an element, and a pointer."""
        low, high = self.pair_of_targets()
        index, above, carry = self.word(), self.word(), PREDICATE
        base, places = CONSTANTS + 2, self.literal(self.random.choice((1, 2, 3, 4)))
        if low in (index, above):
            return
        above = self.random.choice([above, 0])
        self.emit(
            Micro(Kind.SHIFT, (COUNTERS - 1,), (index, places, 0), (0, 0, 32, 0, 0)),
            Micro(Kind.ADD, (low, carry), (COUNTERS - 1, base, 0), (0,)),
        )
        self.emit(
            Micro(Kind.SHIFT, (COUNTERS - 1,), (index, places, above), (0, 0, 64, 0, 1)),
            Micro(Kind.ADD, (high,), (COUNTERS - 1, base + 1, 0, carry), (0,)),
        )

    def choose_pairs(self):
        (a, above), (b, over), (low, high) = self.pair(), self.pair(), self.pair_of_targets()
        if low in (above, over):
            return
        predicate = PREDICATE + self.random.randrange(PREDICATES)
        self.emit(Micro(Kind.SELECT, (low,), (a, b, predicate)))
        self.emit(Micro(Kind.SELECT, (high,), (above, over, predicate)))

    # Flow of control

    def branch(self, depth):
        """Skipped where a predicate says so; lanes meet again behind it."""
        barrier = COUNTERS + self.counters
        self.counters += 1
        self.emit(Micro(Kind.SYNC_SET, (barrier,)))
        jump = self.emit()
        self.block(self.random.randint(1, 3), depth + 1)
        here = len(self.instructions)
        predicate = PREDICATE + self.random.randrange(PREDICATES)
        holds = self.random.randrange(2)
        self.instructions[jump] = ((Micro(Kind.BRANCH, (), (), (here,)),), predicate, holds, ())
        self.jumps[jump] = Jump((here,), True)
        self.emit(Micro(Kind.SYNC_WAIT, (), (barrier,)))

    def loop(self, depth):
        """A few trips, by a counter and a limit that all threads share."""
        if self.counters > 6:
            return
        counter, limit = COUNTERS + self.counters, COUNTERS + self.counters + 1
        self.counters += 2
        self.emit(Micro(Kind.MOVE, (counter,), (0,)))
        bound = (self.literal(self.random.randint(1, 5)), 0, 0)
        self.emit(Micro(Kind.ADD, (limit,), bound, (0,)))
        head = len(self.instructions)
        self.block(self.random.randint(1, 3), depth + 2)
        self.emit(Micro(Kind.ADD, (counter,), (counter, self.literal(1), 0), (0,)))
        predicate = PREDICATE
        self.emit(Micro(Kind.COMPARE, (predicate,), (counter, limit), (Relation.LT, 1)))
        jump = self.emit(Micro(Kind.BRANCH, (), (), (head,)))
        self.instructions[jump] = (self.instructions[jump][0], predicate, 1, ())
        self.jumps[jump] = Jump((head,), True)

    def store(self):
        """Store the registers of each thread; the test evaluates the stored values."""
        place = (SPECIALS_BLOCK, self.literal(32), SPECIALS_THREAD, 0)
        self.emit(Micro(Kind.MULTIPLY, (COUNTERS + 9,), place))
        self.saved = []
        for k, register in enumerate(
            [*range(FIRST, FIRST + WORDS), *range(PREDICATE, PREDICATE + PREDICATES)]
        ):
            memory = MemoryOperand(Space.GLOBAL, 4, 4 * k, 4 * SAVED)
            sources = (COUNTERS + 9, 0, CONSTANTS, CONSTANTS + 1, register)
            asked = (Micro(Kind.MOVE, (), (register,)),)
            store = Micro(Kind.STORE, (), sources, (), memory)
            self.saved.append(self.emit(store, inputs=asked))
        self.jumps[self.emit(Micro(Kind.EXIT))] = Jump((EXIT,), False)

    def finished(self):
        presets = (
            *(Preset(r, PresetSource.SPECIAL, name=name) for r, name in SPECIALS.items()),
            *(
                Preset(CONSTANTS + k, PresetSource.CONSTANT, BASE + 4 * k)
                for k in range(sum(SIZES) // 4)
            ),
            *(Preset(r, PresetSource.LITERAL, value) for value, r in self.literals.items()),
        )
        return MachineCode(
            tuple(MachineInstruction(16 * i, tuple(operations), guard, holds, inputs=inputs)
                  for i, (operations, guard, holds, inputs) in enumerate(self.instructions)),
            LITERALS + len(self.literals) + 1, frozenset(), presets,
            {16 * i: i for i in range(len(self.instructions))}, frozenset(), frozenset(),
            tuple(ParameterSlot(BASE + sum(SIZES[:n]), size) for n, size in enumerate(SIZES)),
            {}, 0, 12, 0x28, 0, 0, 64,
        )  # fmt: skip


SPECIALS_THREAD, SPECIALS_BLOCK, _ = SPECIALS

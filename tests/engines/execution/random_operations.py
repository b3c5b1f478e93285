"""Random machine code of every kind of operation, for one engine against the other.

What it computes means nothing: registers start from a buffer of awkward words, some are unknown,
addresses may lie outside or be unknown, lanes part and meet again. In the end every register is
stored, so that what differs anywhere is seen.
"""

from random import Random

from perfassert.kernel.machine import (
    Combining,
    Function,
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
    Shuffling,
    Space,
    Voting,
)

WORDS, PREDICATES, UNIFORM = 10, 4, 2
VALUE, PREDICATE, WARP_WIDE, SYNC = 1, 20, 30, 40  # first registers of each sort
THREAD, LANE, BLOCK, UNGIVEN, UNDESCRIBED, WINDOW = 60, 61, 62, 63, 64, 65
POINTERS = (70, 72, 74)  # pairs: words, results, a buffer without content
LITERALS = 100
PARAMETERS = (0x160, 0x168, 0x170, 0x178)
SAVED = WORDS + PREDICATES + UNIFORM
BLOCK_BYTES, SHARED_BYTES = 1024, 256
AWKWARD = (0, 1, 2, 31, 32, 33, 0x7F800000, 0xFF800000, 0x7FC00000, 0x80000000, 0x3F800000,
           0x00000001, 0x007FFFFF, 0x00800000, 0x7FFFFFFF, 0xFFFFFFFF, 0x4B000000, 0x4F000000,
           0x5F000000, 0x3FF00000, 0x41DFFFFF, 0x7C01, 0x7C00, 0x03FF)  # fmt: skip
_ORDERED = [r for r in Relation if r < Relation.NEVER]
_WHOLE = [r for r in Relation if r <= Relation.ALWAYS]
_COMBINES = [c for c in Combining if c is not Combining.FLOAT_ADD]
_REDUCES = [Combining.ADD, Combining.MIN, Combining.MAX, Combining.AND, Combining.OR, Combining.XOR]

PURE = {
    Kind.MOVE: ("w", "w", ()), Kind.ADD: ("wpp", "www", (range(8),)),
    Kind.MULTIPLY: ("w", "wwwp", ()), Kind.MULTIPLY_WIDE: ("wwp", "wwwwp", (range(2),)),
    Kind.LOGIC: ("w", "www", (range(256),)),
    Kind.SHIFT: ("w", "www", (range(2), range(2), (32, 64), range(2), range(2))),
    Kind.SELECT: ("w", "wwp", ()), Kind.COMPARE: ("p", "ww", (_WHOLE, range(2))),
    Kind.COMPARE_EXTENDED: ("p", "wwp", (_ORDERED, range(2))),
    Kind.COMPARE_WIDE: ("p", "wwww", (_WHOLE, range(2))),
    Kind.DECIDE: ("p", "ppp", (range(256),)), Kind.MINIMUM: ("w", "wwp", (range(2),)),
    Kind.PERMUTE: ("w", "www", ()), Kind.COUNT_BITS: ("w", "w", ()),
    Kind.FIND_BIT: ("w", "w", (range(2), range(2))), Kind.REVERSE_BITS: ("w", "w", ()),
    Kind.BIT_FIELD: ("w", "ww", (range(2),)),
    Kind.EXTEND: ("w", "ww", (range(2), range(2))),
    Kind.DOT: ("w", "www", (range(2), range(2))), Kind.ABSOLUTE: ("w", "w", ()),
    Kind.FLOAT_ADD: ("w", "ww", (Rounding, range(2), range(2))),
    Kind.FLOAT_MULTIPLY: ("w", "ww", (Rounding, range(2), range(2))),
    Kind.FLOAT_FUSED: ("w", "www", (Rounding, range(2), range(2))),
    Kind.FLOAT_COMPARE: ("p", "ww", (Relation, range(2), range(2))),
    Kind.FLOAT_MINIMUM: ("w", "wwp", (range(2),)),
    Kind.FLOAT_FUNCTION: ("w", "w", (Function,)),
    Kind.FLOAT_CHECK: ("p", "ww", ()), Kind.DOUBLE_ADD: ("ww", "wwww", (Rounding,)),
    Kind.DOUBLE_MULTIPLY: ("ww", "wwww", (Rounding,)),
    Kind.DOUBLE_FUSED: ("ww", "wwwwww", (Rounding,)),
    Kind.DOUBLE_COMPARE: ("p", "wwww", (Relation, range(2))),
    Kind.FROM_INTEGER: ("ww", "ww", ((32, 64), range(2), (64,), Rounding)),
    Kind.TO_INTEGER: ("ww", "ww", ((32, 64), (64,), range(2), Rounding, range(2))),
    Kind.ROUND: ("w", "w", (Rounding, range(2))), Kind.NARROW: ("w", "ww", (Rounding,)),
    Kind.DOUBLE_ROUND: ("ww", "ww", (Rounding,)),
    Kind.WIDEN: ("ww", "w", ()), Kind.HALF_TO_FLOAT: ("w", "w", (range(2),)),
    Kind.VOTE: ("wp", "p", (Voting,)), Kind.SHUFFLE: ("wp", "www", (Shuffling,)),
    Kind.MATCH: ("wp", "ww", (range(2),)), Kind.REDUCE: ("w", "w", (_REDUCES, range(2))),
    Kind.FIRST: ("w", "w", ()), Kind.UNKNOWN: ("w", "", ()),
}  # fmt: skip
"""Operations on registers: sorts of targets and sources (words, predicates), choices of detail."""


class Operations:
    """A random program; ``code`` has the instructions that were written."""

    def __init__(self, seed, length=40):
        self.random = Random(seed)
        self.instructions = []
        self.literals = {}
        self.barriers = 0
        self.prologue()
        self.block(length, 0)
        self.epilogue()
        self.code = self.finished()

    # Writing code

    def emit(self, *operations, guard=True):
        register, holds = -1, 1
        if guard and self.random.random() < 0.3:
            register, holds = self.register("p"), self.random.randrange(2)
        self.instructions.append([list(operations), register, holds])
        return len(self.instructions) - 1

    def literal(self, value):
        return self.literals.setdefault(value, LITERALS + len(self.literals))

    def register(self, sort):
        r = self.random
        if sort == "p":
            return PREDICATE + r.randrange(PREDICATES)
        if r.random() < 0.1:
            return WARP_WIDE + r.randrange(UNIFORM)
        return VALUE + r.randrange(WORDS)

    def source(self, sort):
        r = self.random
        if r.random() < 0.15:
            if sort == "p":
                return 0
            return r.choice([0, LANE, UNGIVEN, THREAD, self.literal(r.choice(AWKWARD))])
        return self.register(sort)

    def targets(self, sorts):
        """Distinct ones; some results are discarded."""
        found = []
        for sort in sorts:
            register = self.register(sort)
            keep = register not in found and (not found or self.random.random() < 0.8)
            found.append(register if keep else -1)
        return tuple(found)

    def prologue(self):
        for k in range(WORDS):
            memory = MemoryOperand(Space.GLOBAL, 4, 4 * k, 4 * WORDS)
            pointer = POINTERS[0]
            load = Micro(Kind.LOAD, (VALUE + k,), (THREAD, 0, pointer, pointer + 1), (), memory)
            self.emit(load, guard=False)
        for k in range(PREDICATES):
            bit = Micro(Kind.LOGIC, (PREDICATE + k,), (VALUE + k, self.literal(1), 0), (0xC0,))
            self.emit(bit, guard=False)
        for k in range(UNIFORM):
            self.emit(Micro(Kind.MOVE, (WARP_WIDE + k,), (VALUE + k,)), guard=False)

    def epilogue(self):
        """Let each thread store all of its registers."""
        place = Micro(
            Kind.MULTIPLY, (VALUE + WORDS,), (BLOCK, self.literal(BLOCK_BYTES), THREAD, 0)
        )
        self.emit(place, guard=False)
        registers = [*range(VALUE, VALUE + WORDS), *range(PREDICATE, PREDICATE + PREDICATES),
                     *range(WARP_WIDE, WARP_WIDE + UNIFORM)]  # fmt: skip
        for k, register in enumerate(registers):
            memory = MemoryOperand(Space.GLOBAL, 4, 4 * k + 4 * BLOCK_BYTES, 4 * SAVED)
            pointer = POINTERS[1]
            sources = (VALUE + WORDS, 0, pointer, pointer + 1, register)
            self.emit(Micro(Kind.STORE, (), sources, (), memory), guard=False)
        self.emit(Micro(Kind.EXIT), guard=False)

    def block(self, length, depth):
        r = self.random
        for _ in range(length):
            chance = r.random()
            if chance < 0.6:
                self.plain()
            elif chance < 0.82:
                self.access()
            elif chance < 0.85 and not depth:
                self.together()
            elif depth < 3:
                r.choice((self.branch, self.branch, self.loop, self.call))(depth)

    def plain(self):
        r = self.random
        operations = []
        for _ in range(r.randint(1, 2)):
            kind = r.choice(list(PURE))
            targets, sources, choices = PURE[kind]
            detail = tuple(int(r.choice(list(c))) for c in choices)
            found = tuple(self.source(s) for s in sources)
            operations.append(Micro(kind, self.targets(targets), found, detail))
        self.emit(*operations)

    # Memory

    def access(self):
        r = self.random
        space = r.choice([Space.GLOBAL, Space.GLOBAL, Space.SHARED, Space.SHARED, Space.LOCAL,
                          Space.GENERIC, Space.CONSTANT])  # fmt: skip
        kind = Kind.LOAD if space is Space.CONSTANT else r.choice([
            Kind.LOAD, Kind.LOAD, Kind.STORE, Kind.ATOMIC, Kind.MATRIX_LOAD])  # fmt: skip
        size = r.choice([4, 8]) if kind is Kind.ATOMIC else r.choice([1, 2, 4, 4, 8, 16, 32])
        if kind is Kind.MATRIX_LOAD:
            size, space = 16, Space.SHARED
        index = self.index(max(size, 4))
        high, base = 0, (0, 0)
        if space is Space.GLOBAL or (space is Space.GENERIC and r.random() < 0.5):
            pointer = r.choice(POINTERS)
            base = (pointer, pointer + 1)
        elif space is Space.GENERIC:
            high = self.literal(r.choice([1, 2]))
        words = max(size // 4, 1)
        combine = r.choice([*_COMBINES, Combining.FLOAT_ADD, None]) if kind is Kind.ATOMIC else None
        if combine is Combining.FLOAT_ADD and words > 1:
            combine = Combining.ADD
        memory = MemoryOperand(
            space, size, r.choice([0, 0, size, 256]), 1, r.random() < 0.3 and size < 4,
            r.choice([0, 3, 5]), combine, r.random() < 0.5,
        )  # fmt: skip
        sources = (index, high, *base)
        if kind is Kind.LOAD:
            micro = Micro(kind, self.targets("w" * words), sources, (), memory)
        elif kind is Kind.MATRIX_LOAD:
            micro = Micro(kind, self.targets("w"), sources, (r.choice([8, 16, 32]),), memory)
        else:
            count = words * (2 if combine is Combining.COMPARE_SWAP else 1)
            targets = self.targets("w" * words) if kind is Kind.ATOMIC else ()
            sources += tuple(self.source("w") for _ in range(count))
            micro = Micro(kind, targets, sources, (), memory)
        self.emit(micro)

    def index(self, size):
        """Mostly within a few elements; sometimes unknown, sometimes anywhere."""
        r = self.random
        chance = r.random()
        if chance < 0.04:
            return r.choice([UNGIVEN, self.register("w")])
        if chance < 0.3:
            self.emit(Micro(Kind.MULTIPLY, (VALUE + WORDS,), (LANE, self.literal(size), 0, 0)),
                      guard=False)  # fmt: skip
            return VALUE + WORDS
        mask = self.literal((r.choice([1, 4, 16]) - 1) * size)
        self.emit(Micro(Kind.LOGIC, (VALUE + WORDS,), (self.register("w"), mask, 0), (0xC0,)),
                  guard=False)  # fmt: skip
        return VALUE + WORDS

    # Flow of control

    def jump(self):
        return self.emit(Micro(Kind.BRANCH, (), (), (0,)), guard=False)

    def patch(self, place, register=-1, holds=1):
        here = len(self.instructions)
        old = self.instructions[place][0][-1]
        self.instructions[place] = [[Micro(old.kind, (), old.sources, (here, *old.detail[1:]))],
                                    register, holds]  # fmt: skip

    def sync(self):
        self.barriers += 1
        register = SYNC + (self.barriers - 1) % (THREAD - SYNC)
        self.emit(Micro(Kind.SYNC_SET, (register,)), guard=False)
        return register

    def branch(self, depth):
        r = self.random
        barrier = self.sync()
        end = self.jump()
        predicate = self.register("p")
        self.block(r.randint(1, 4), depth + 1)
        if r.random() < 0.1:
            self.emit(Micro(Kind.SYNC_LEAVE, (), (barrier,)), guard=False)
            self.emit(Micro(Kind.EXIT))
        if r.random() < 0.1:
            self.emit(Micro(Kind.YIELD), guard=False)
        if r.random() < 0.1:
            diverged = self.emit(
                Micro(Kind.BRANCH_DIVERGED, (), (), (0, r.randrange(2))), guard=False
            )
            self.plain()
            self.patch(diverged, self.register("p"), 1)
        self.patch(end, predicate, r.randrange(2))
        self.emit(Micro(Kind.SYNC_WAIT, (), (barrier,)), guard=False)

    def loop(self, depth):
        """Up to seven trips, by the low bits of a word that the loop shifts."""
        r = self.random
        barrier, counter = self.sync(), self.sync()
        low = Micro(Kind.LOGIC, (counter,), (self.register("w"), self.literal(7), 0), (0xC0,))
        self.emit(low, guard=False)
        head = len(self.instructions)
        self.block(r.randint(1, 3), depth + 1)
        predicate = self.register("p")
        less = Micro(Kind.SHIFT, (counter,), (counter, self.literal(1), 0), (1, 0, 32, 0, 0))
        test = Micro(Kind.COMPARE, (predicate,), (counter, 0), (Relation.NE, 0))
        self.emit(less, test, guard=False)
        self.instructions.append([[Micro(Kind.BRANCH, (), (predicate,), (head,))], -1, 1])
        self.emit(Micro(Kind.SYNC_WAIT, (), (barrier,)), guard=False)

    def call(self, depth):
        """To one of two places, by an address in a register."""
        barrier, address = self.sync(), self.sync()
        chosen = self.emit(Micro(Kind.MOVE), guard=False)
        self.emit(Micro(Kind.BRANCH_INDIRECT, (), (address,), (0, 0)), guard=False)
        first = len(self.instructions)
        self.block(2, depth + 1)
        second = len(self.instructions)
        places = (self.literal(16 * first), self.literal(16 * second))
        select = Micro(Kind.SELECT, (address,), (*places, self.register("p")))
        self.instructions[chosen][0][:] = [select]
        self.emit(Micro(Kind.SYNC_WAIT, (), (barrier,)), guard=False)

    def together(self):
        """Emit an operation for which all threads of a block, or all lanes of a warp, wait."""
        r = self.random
        number, count = self.literal(r.randrange(3)), r.choice([0, 0, self.literal(64)])
        choice = r.randrange(4)
        if choice == 0:
            self.emit(Micro(Kind.WARP_WAIT, (), (self.literal(0xFFFFFFFF),)), guard=False)
        elif choice == 1:
            targets = (VALUE + r.randrange(WORDS), PREDICATE + r.randrange(PREDICATES))
            mode = r.choice([Combining.ADD, Combining.AND, Combining.OR])
            sources = (number, count, self.register("p"))
            self.emit(Micro(Kind.BARRIER_REDUCE, targets, sources, (mode,)), guard=False)
        else:
            self.emit(Micro(Kind.BARRIER, (), (number, count), (int(r.random() < 0.2),)))

    def finished(self):
        presets = [
            Preset(THREAD, PresetSource.SPECIAL, name="threadIdx.x"),
            Preset(LANE, PresetSource.SPECIAL, name="laneid"),
            Preset(BLOCK, PresetSource.SPECIAL, name="blockIdx.x"),
            Preset(UNDESCRIBED, PresetSource.SPECIAL, name="clock"),
            Preset(UNGIVEN, PresetSource.CONSTANT, PARAMETERS[3]),
            *(Preset(p + k, PresetSource.CONSTANT, PARAMETERS[n] + 4 * k)
              for n, p in enumerate(POINTERS) for k in range(2)),
            *(Preset(register, PresetSource.LITERAL, value)
              for value, register in self.literals.items()),
        ]  # fmt: skip
        instructions = tuple(
            MachineInstruction(16 * i, tuple(operations), guard, holds)
            for i, (operations, guard, holds) in enumerate(self.instructions)
        )
        return MachineCode(
            instructions, LITERALS + len(self.literals) + 1,
            frozenset(range(WARP_WIDE, WARP_WIDE + UNIFORM)), tuple(presets),
            {16 * i: i for i in range(len(instructions))}, frozenset(), frozenset(),
            tuple(ParameterSlot(p, 8 if n < 3 else 4) for n, p in enumerate(PARAMETERS)),
            {3: bytes(range(200))}, 0, 12, 0x28, 0, SHARED_BYTES, 64,
        )  # fmt: skip

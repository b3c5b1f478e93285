"""``python -m symbolic_values.compare COUNT SEED`` (in tests/): symbolic values of random programs
against both executors, wherever they are known and what was assumed of ranges holds."""

import operator
import sys
from collections import Counter
from random import Random

import numpy as np
from engines.execution.machine import launched

from perfassert.engines.execution.compiled import available
from perfassert.frontends.analysis.evaluate import evaluate
from perfassert.frontends.analysis.symbolic_code import Constants, SymbolicCode
from perfassert.kernel.expression_pool import ExpressionPool
from perfassert.kernel.names import Argument, LoopCounter

from .programs import BASE, SAVED, Program

GRID, THREADS = 3, 32
_ITERATIONS = 6  # more than any loop has
_SIZES = (4, 100, 5000, 1 << 20, 1 << 31, 1 << 40)


def arguments(seed):
    """Two numbers of 64 bits and three of 32; small ones above 0 more often than any other."""
    r = Random(seed)
    size = r.choice(_SIZES[:4]) if r.random() < 0.8 else r.choice(_SIZES)
    low = 0 if r.random() < 0.7 else -size
    wide = [r.randrange(low, size) for _ in range(2)]
    narrow = [r.randrange(max(low, -(1 << 31)), min(size, 1 << 31)) for _ in range(3)]
    return [*wide, *narrow]


def compare(seed, engines=(True,)):
    """``(known, stored)`` words of a program's threads; raises AssertionError where they differ."""
    program, given = Program(seed), arguments(seed)
    symbols = ExpressionPool()
    constants = Constants(BASE, program.parameters)
    code = SymbolicCode(program.machine, program.placed, program.jumps, symbols, constants)
    found = evaluate(code)
    names = {"blockIdx.x": np.repeat(np.arange(GRID), THREADS),
             "threadIdx.x": np.tile(np.arange(THREADS), GRID)}  # fmt: skip
    names["laneid"] = names["threadIdx.x"]
    names = {name: value.astype(object) for name, value in names.items()}
    names |= {Argument(n + 1): value for n, value in enumerate(given)}
    memo = {}
    valid = _holds(found, code, names)
    known = 0
    for compiled in engines:
        room = np.zeros(GRID * THREADS * SAVED, np.uint32)
        run = launched(program.machine, GRID, THREADS, [room, *given], compiled=compiled)
        stored = run.contents["arg0"].view(np.uint32).reshape(-1, SAVED)
        for place, index in enumerate(program.saved):
            value = _evaluated(symbols, found.addresses[index][0], names, memo)
            if value is not None:
                right = (value % (1 << 32)).astype(np.uint32)[valid]
                known += len(right)
                same = np.array_equal(right, stored[:, place][valid])
                assert same, f"program {seed}, register {place}, compiled: {compiled}"
    return known, len(engines) * GRID * THREADS * SAVED


def _evaluated(symbols, value, names, memo):
    """Evaluate a value for every thread, with integers of any size; None if it is unknown."""
    for index in symbols.free_atoms(value):
        atom = symbols.atoms[index]
        if atom.function not in _FUNCTIONS and atom.name not in names:
            return None  # data, or a step of a division, which means nothing alone
    return _value(symbols, value, names, memo)


def _value(symbols, value, names, memo):
    if value.index not in memo:
        total = np.zeros(GRID * THREADS, object)
        for monomial, coefficient in value.terms:
            term = coefficient
            for index in monomial:
                term = term * _atom(symbols, symbols.atoms[index], names, memo)
            total = total + term
        memo[value.index] = total
    return memo[value.index]


def _atom(symbols, atom, names, memo):
    if not atom.function:
        return names[atom.name]
    arguments = [_value(symbols, a, names, memo) for a in atom.arguments]
    return np.frompyfunc(_FUNCTIONS[atom.function], len(arguments), 1)(*arguments)


def _all(*conditions):
    return int(all(conditions))


_FUNCTIONS = {
    "//": lambda a, b: a // b if b else 0, "min": min, "max": max, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "<": lambda a, b: int(a < b),
    "==": lambda a, b: int(a == b), "not": lambda a: int(not a), "and": _all,
    "or": lambda *a: int(any(a)), "select": lambda c, a, b: a if c else b,
    "negative": lambda a: int(a < 0),
    "<<": lambda a, b: a << b if 0 <= b < 64 else 0,  # beyond it no thread is compared
}  # fmt: skip


def _holds(found, code, names):
    """Threads of which everything that was assumed is true, in each iteration of each loop; none,
    where something was assumed of what is not known."""
    valid = np.ones(GRID * THREADS, np.bool_)
    for iteration in range(_ITERATIONS if found.loops else 1):
        counters = {LoopCounter(loop): iteration for loop in found.loops}
        here, memo = {**names, **counters}, {}
        for value, low, high in code.words.ranges.values():
            seen = _evaluated(found.symbols, value, here, memo)
            if seen is None:
                return np.zeros_like(valid)
            valid &= ((seen >= low) & (seen <= high)).astype(np.bool_)
        for value in code.words.alike.values():
            seen = _evaluated(found.symbols, value, here, memo)
            if seen is None:
                return np.zeros_like(valid)
            warps = seen.reshape(GRID, THREADS)
            valid &= np.repeat((warps == warps[:, :1]).all(axis=1), THREADS)
    return valid


def main(count, seed):
    """Compare so many programs, from ``seed`` on; prints how much of them was known."""
    totals = Counter()
    for number in range(seed, seed + count):
        known, stored = compare(
            number, (True, False) if number % 20 == 0 and available() else (True,)
        )
        totals.update(programs=1, known=known, stored=stored, some=bool(known))
        if (number - seed + 1) % 5000 == 0:
            print(f"{number - seed + 1} programs", file=sys.stderr, flush=True)
    share = totals["known"] / totals["stored"]
    print(f"{totals['programs']} programs, {totals['some']} with known values")
    print(f"{totals['known']} of {totals['stored']} words known ({share:.1%}), none of them wrong")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

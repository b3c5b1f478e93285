"""Flow of control, barriers and what has no effect on values, as executable operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perfassert.frontends.cuda.ptx_step import PREDICATE, PtxStep
from perfassert.kernel.machine import Combining, Kind, Relation

ADDRESS_STEP = 16  # between instructions, as on machines with 128-bit instructions
_NOTHING = (
    "membar fence prefetch prefetchu discard applypriority pragma griddepcontrol setmaxnreg brkpt "
    "pmevent createpolicy"
).split()
_RETURNS = ("vprintf",)  # functions of the system that come back


def _branch(i: PtxStep) -> None:
    i.emit(Kind.BRANCH, (), (), (_place(i, i.operands[-1]),))


def _place(i: PtxStep, label: str) -> int:
    if label not in i.names.places:
        raise i.refuse()
    return i.names.places[label]


def _indirect(i: PtxStep) -> None:
    """The address is chosen among those in the table."""
    index = i.word(0, "u32")
    address = 0
    for number, label in enumerate(i.names.tables[i.operands[1]]):
        here = i.new(Kind.COMPARE, (index, i.literal(number)), (Relation.EQ, 0))
        there = i.literal(_place(i, label) * ADDRESS_STEP)
        address = i.new(Kind.SELECT, (there, address, here))
    i.emit(Kind.BRANCH_INDIRECT, (), (address,), (0, 0))


def _exit(i: PtxStep) -> None:
    i.emit(Kind.EXIT, (), ())


def _call(i: PtxStep) -> None:
    """Of what has no body."""
    if not any(o in _RETURNS for o in i.operands):
        raise i.refuse()


def _note(i: PtxStep) -> None:
    i.emit(Kind.SYNC_SET, (_barrier(i),), ())


def _meet(i: PtxStep) -> None:
    i.emit(Kind.SYNC_WAIT, (), (_barrier(i),))


def _leave(i: PtxStep) -> None:
    i.emit(Kind.SYNC_LEAVE, (), (_barrier(i),))


def _forget(i: PtxStep) -> None:
    i.emit(Kind.MOVE, (_barrier(i),), (0,))


def _barrier(i: PtxStep) -> int:
    return i.registers.named(f"ptx barrier {i.operands[0]}")


def _warp(i: PtxStep) -> None:
    i.emit(Kind.WARP_WAIT, (), (i.word(0, "u32"),))


def _block(i: PtxStep) -> None:
    """``bar``, ``barrier``: of a block or a warp; that of a cluster has no effect on values."""
    if i.has("cluster"):
        return
    if i.has("warp"):
        _warp(i)
        return
    reduces = i.has("red")
    operands = i.operands[int(reduces) : -1] if reduces else i.operands
    number, count = (i.value(o, "u32")[0] for o in (*operands, "0", "0")[:2])
    if not reduces:
        i.emit(Kind.BARRIER, (), (number, count), (int(i.has("arrive")),))
        return
    modes = {"popc": Combining.ADD, "and": Combining.AND, "or": Combining.OR}
    mode = next(p for p in i.parts if p in modes)
    condition = i.value(i.operands[-1], PREDICATE)[0]
    target = i.target_words(i.targets[0])[0]
    targets = (target, -1) if mode == "popc" else (-1, target)
    i.emit(Kind.BARRIER_REDUCE, targets, (number, count, condition), (modes[mode],))


def _yield(i: PtxStep) -> None:
    i.emit(Kind.YIELD, (), ())


def _nothing(i: PtxStep) -> None:
    return


CONTROL: Mapping[str, Callable[[PtxStep], None]] = {
    **dict.fromkeys(_NOTHING, _nothing),
    "bra": _branch, "brx": _indirect, "ret": _exit, "exit": _exit, "trap": _exit, "call": _call,
    "bssy": _note, "bsync": _meet, "break": _leave, "bclear": _forget, "warpsync": _warp,
    "bar": _block, "barrier": _block, "nanosleep": _yield,
}  # fmt: skip

"""Makes a kernel smaller as long as the same is wrong with its prediction.

Statements are left out, expressions are replaced by a part of them or by a number.
"""

import copy
import re
import tempfile
import time
from pathlib import Path

from . import oracle
from .expressions import Binary, Expression, Function, Literal, Rejected
from .measure import device_of, measure, source_of
from .program import If, Kernel, nested


def reduced(kernel, arch, most=200, seconds=100):
    """The smallest kernel found within so many predictions and seconds, and its outcome."""
    device = device_of(arch)
    with tempfile.TemporaryDirectory() as folder:
        judge = _Judge(device, Path(folder), most, time.monotonic() + seconds)
        best, wanted = kernel, judge(kernel)
        progress = bool(wanted.failure)
        while progress and judge.goes_on():
            progress = False
            for candidate in _smaller(best):
                outcome = judge(candidate)
                if outcome is not None and _same(outcome, wanted):
                    best, progress = candidate, True
                    break
                if not judge.goes_on():
                    break
        return best, judge(best, count=False)


def _same(outcome, wanted):
    if wanted.error:
        return outcome.error[:20] == wanted.error[:20]
    fields = {name for _, name in wanted.wrong}
    same_fields = all(name in fields for _, name in outcome.wrong)
    return outcome.failure == wanted.failure and same_fields


class _Judge:
    def __init__(self, device, folder, left, end):
        self.device, self.folder, self.left, self.end = device, folder, left, end
        self.seen = set()

    def goes_on(self):
        return self.left > 0 and time.monotonic() < self.end

    def __call__(self, kernel, count=True):
        text = source_of([kernel])
        if count and text in self.seen:
            return None
        self.seen.add(text)
        try:
            run = kernel.run()
            oracle.check(kernel, run)
            oracle.check_size(kernel, run)
            if any(loop.unroll != 1 for loop in run.uneven):
                oracle.keep_order(kernel, run)
        except Rejected:
            return None
        self.left -= 1
        path = self.folder / f"{kernel.name}_{self.left}.cu"
        path.write_text(source_of([kernel]))
        return measure(kernel, run, path, self.device)


def _smaller(kernel):
    """Candidates, those that leave out most first."""
    bodies = list(_bodies(kernel.body))
    for number, body in enumerate(bodies):
        for place in range(len(body)):
            other = copy.deepcopy(kernel)
            own = list(_bodies(other.body))[number]
            removed = own.pop(place)
            if isinstance(removed, If):  # what is inside stays, without the condition
                yield other
                again = copy.deepcopy(kernel)
                own = list(_bodies(again.body))[number]
                own[place : place + 1] = own[place].parts
                yield again
            else:
                yield other
    for number, (_, _, value) in enumerate(list(_slots(kernel))):
        for part in _parts(value):
            other = copy.deepcopy(kernel)
            owner, name, _ = list(_slots(other))[number]
            object.__setattr__(owner, name, part)
            yield other
    yield from _without_arguments(kernel)
    for axis, length in enumerate(kernel.grid):
        for shorter in {1, 2, length // 2} - {0, length}:
            if shorter < length:
                other = copy.deepcopy(kernel)
                other.grid = (*kernel.grid[:axis], shorter, *kernel.grid[axis + 1 :])
                yield other


def _without_arguments(kernel):
    """Without one of those that the body does not mention."""
    text = " ".join(kernel.body_lines())
    names = {"fields": 0, "scalars": 1, "constants": 1}
    for kind, position in names.items():
        for number, argument in enumerate(getattr(kernel, kind)):
            name = argument.name if kind == "fields" else argument[position]
            if not re.search(rf"\b{name}\b", text) and not getattr(argument, "member", ""):
                other = copy.deepcopy(kernel)
                del getattr(other, kind)[number]
                yield other
    members = kernel.structure.members if kernel.structure else []
    for number, (_, name, _) in enumerate(members):
        if not re.search(rf"\b{name}\b", text + " ".join(map(str, kernel.functions))):
            other = copy.deepcopy(kernel)
            del other.structure.members[number]
            if not other.structure.members:
                other.structure = None
            yield other


def _bodies(body):
    yield body
    for statement in body:
        if statement.parts:
            yield from _bodies(statement.parts)


def _slots(owner):
    """Yield the places of expressions: (object, attribute or index, expression)."""
    if isinstance(owner, Kernel):
        for statement in nested(owner.body):
            yield from _slots_in(statement)
        return
    yield from _slots_in(owner)


def _slots_in(owner):
    for name, value in list(vars(owner).items()):
        if name == "variable" or isinstance(value, Function):
            continue
        if isinstance(value, Expression):
            yield owner, name, value
            yield from _slots_in(value)
        elif type(value).__name__ == "Target":
            yield from _slots_in(value)


def _parts(value):
    """Expressions that may stand where ``value`` does."""
    own = [v for v in vars(value).values() if isinstance(v, Expression)]
    if value.type is None:
        yield from (v for v in own if v.type is None)
        return
    yield from (v for v in own if v.type is not None)
    if isinstance(value, Binary):
        yield Literal(1)

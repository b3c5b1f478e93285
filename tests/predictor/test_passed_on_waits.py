"""Waits of removed instructions, passed on to those that waited for them."""

from hypothesis import given
from hypothesis import strategies as st

from perfassert.kernel.graph import BodyItem, ItemKind
from perfassert.predictor.rewrites.list_scheduling import Step, pass_on_waits

CYCLES = st.integers(1, 9)


class Counted(dict):
    """Waits that count how often they are read as a whole."""

    reads = 0

    def items(self):
        self.reads += 1
        return super().items()


def step(waits, fixed=()):
    return Step(BodyItem(ItemKind.NODE, 0), None, 1, 1, Counted(waits), dict(fixed))


@st.composite
def bodies(draw):
    """Steps that wait for some of the earlier ones, for some of these for a fixed time, and which
    of them are removed."""
    steps = []
    for k in range(draw(st.integers(1, 12))):
        waits = draw(st.dictionaries(st.integers(0, k - 1), CYCLES)) if k else {}
        steps.append(step(waits, {b: c for b, c in waits.items() if draw(st.booleans())}))
    return steps, frozenset(draw(st.sets(st.integers(0, len(steps) - 1))))


def along_removed(steps, gone, k, kind):
    """Longest wait for each remaining step at the end of a path of removed ones."""
    found: dict[int, int] = {}
    paths = [k]
    while paths:
        last = paths.pop()
        for before, cycles in getattr(steps[last], kind).items():
            if before not in gone:
                found[before] = max(found.get(before, 0), cycles)
        paths += [before for before in steps[last].waits if before in gone]
    return found


@given(bodies())
def test_all_paths_of_removed_steps_are_followed(body):
    steps, gone = body
    expected = [
        tuple(along_removed(steps, gone, k, kind) for kind in ("waits", "fixed"))
        for k in range(len(steps))
    ]
    pass_on_waits(steps, gone)
    assert [(s.waits, s.fixed) for s in steps] == expected


def test_what_another_one_has_inherited_is_not_read_again():
    """Stores to local memory wait for all earlier ones: 200 of them took 19,900 reads."""
    loads, stores = 20, 200
    steps = [step({}) for _ in range(loads)]
    steps += [step(dict.fromkeys(range(k), 1)) for k in range(loads, loads + stores)]
    pass_on_waits(steps, frozenset(range(loads, loads + stores)))
    assert all(s.waits == dict.fromkeys(range(loads), 1) for s in steps[loads:])
    assert sum(s.waits.reads for s in steps) == stores - 1

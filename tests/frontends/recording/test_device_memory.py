"""Tests of the known bytes of allocations, against a map of single bytes."""

from hypothesis import given
from hypothesis import strategies as st

from perfassert.frontends.recording.memory import DeviceMemory

STARTS, SIZE = (1000, 1100), 40
places = st.tuples(st.sampled_from(STARTS), st.integers(0, SIZE - 1), st.integers(1, SIZE))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), places),
        st.tuples(st.just("copy"), places, places),
        st.tuples(st.just("forget"), st.sampled_from(STARTS)),
    ),
    max_size=12,
)


@given(steps)
def test_written_bytes(steps):
    memory = DeviceMemory()
    known = {start: [False] * SIZE for start in STARTS}
    for start in STARTS:
        memory.add(start, SIZE)
    for kind, *where in steps:
        if kind == "forget":
            memory.around(where[0]).written.clear()
            known[where[0]] = [False] * SIZE
            continue
        base, at, length = where[0]
        length = min(length, SIZE - at)
        if kind == "write":
            memory.write(base + at, length)
            known[base][at : at + length] = [True] * length
        else:
            other, origin, _ = where[1]
            length = min(length, SIZE - origin)
            moved = known[other][origin : origin + length]
            if other == base:
                continue  # overlapping copies are undefined
            memory.copy(base + at, other + origin, length)
            known[base][at : at + length] = moved
    for start in STARTS:
        allocation = memory.around(start)
        found = [any(a <= i < b for a, b in allocation.written) for i in range(SIZE)]
        assert found == known[start]
        assert allocation.known == all(known[start])
        assert allocation.written == sorted(allocation.written)


def test_where_a_pointer_points():
    memory = DeviceMemory()
    memory.add(1000, 40)
    memory.add(2000, 8)
    assert memory.around(999) is None
    assert memory.around(1039).address == 1000
    assert memory.around(1040).address == 1000  # an end
    assert memory.around(1041) is None
    memory.drop(1000)
    assert memory.around(1000) is None
    assert memory.around(2004).address == 2000

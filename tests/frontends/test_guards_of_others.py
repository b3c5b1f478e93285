"""Guards and predicates as found in published CUDA code; what a thread moves is counted by hand."""

import pytest
from described import missing, moved, program_of, variables

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_120")


@pytest.fixture(autouse=True)
def toolchain():
    if missing():
        pytest.skip(f"{missing()} is not installed")


CASES = [
    # kernel, arguments, 4-byte loads and stores of thread t of block b; blocks have 64 threads
    ("rows_of_36", {"n": 3}, lambda b, t: (int((64 * b + t) // 36 < 3),) * 2),
    ("rows_of_36_signed", {"n": 3}, lambda b, t: (int((64 * b + t) // 36 < 3),) * 2),
    ("copy_or_zero", {"n": 100}, lambda b, t: (int(64 * b + t < 100), 1)),
    ("upper_half", {"n": 5}, lambda b, t: (5 * (b >= 3), int(b >= 3))),
    ("predicated_chain", {"n": 100}, lambda b, t: (1 + int(64 * b + t < 100), 1)),
]


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(("kernel", "arguments", "counts"), CASES, ids=[c[0] for c in CASES])
def test_a_thread_moves_what_its_source_says(kernel, arguments, counts, arch):
    program = program_of("guards.cu", kernel, arch)
    for b, t in [(0, 0), (0, 63), (1, 35), (1, 36), (1, 44), (3, 20)]:
        names = variables(program, arguments, (4, 1, 1), (64, 1, 1), (b, 0, 0), (t, 0, 0))
        loads, stores = counts(b, t)
        assert moved(program, names) == (4 * loads, 4 * stores), (b, t)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_an_address_made_under_a_predicate_is_known_under_it(arch):
    """Even where the predicate itself depends on data."""
    program = program_of("guards.cu", "predicated_two", arch)
    accesses = [a for i in program.instructions for a in i.accesses]
    assert [a.text for a in accesses if a.unresolved] == []
    assert sorted(a.field for a in accesses) == ["p", "sums", "x", "x"]

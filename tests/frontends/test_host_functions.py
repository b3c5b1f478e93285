"""``assert`` and ``printf`` in a file: functions that the driver provides cost no kernel of it."""

import pytest
from described import missing, moved, program_of, variables


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize("kernel", ["checked", "told", "beside"])
@pytest.mark.exhaustive(one_in=10)
def test_each_kernel_of_the_file_is_described(kernel, arch):
    if missing():
        pytest.skip(f"{missing()} is not installed")
    program = program_of("host.cu", kernel, arch)
    for t in (1, 63):
        names = variables(program, {"n": 200}, (4, 1, 1), (64, 1, 1), (2, 0, 0), (t, 0, 0))
        assert moved(program, names) == (4, 4)
    unknown = [a.text for a in program.assumptions if a.stands_for]
    # a failed assertion ends the kernel; what the thread that prints takes is not known, and said
    assert [text.split("(")[0] for text in unknown] == ["a call of vprintf"] * (kernel == "told")

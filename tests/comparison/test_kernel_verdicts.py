"""Better, worse, mixed or same: what each number says of a kernel, and what its launches say."""

from pathlib import Path

import pytest

from perfassert.comparison.kernel_changes import CodeSide, Placed, diff, verdict
from perfassert.comparison.kernel_text import text
from perfassert.comparison.limits import parse
from perfassert.comparison.status import Status
from perfassert.frontends.cuda.inventory import KernelInfo

USUAL = {
    "name": "k", "mangled": "_Z1kPf", "arch": "sm_80", "registers": 32, "spill_bytes": 8,
    "stack_bytes": 8, "shared_bytes": 1024, "barriers": 1, "code_bytes": 256, "mix": {"move": 4},
    "accesses": {"global_load 8 B": 2, "global_store 4 B": 1}, "digest": "1", "control_flow": "",
}  # fmt: skip


def side(name, *changes, file="k.cu"):
    kernels = [
        Placed(KernelInfo(**{**USUAL, **change}), file, Path(name, file)) for change in changes
    ]
    return CodeSide(name, Path(name), tuple(kernels))


def compared(change, limits=""):
    result = diff(side("base", {}), side("head", {"digest": "2", **change}), parse(limits))
    return result.kernels[0]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, "same"),
        ({"registers": 31}, "same"),
        ({"registers": 33}, "worse"),  # fewer blocks of 1024 fit
        ({"spill_bytes": 0, "stack_bytes": 0}, "better"),
        ({"shared_bytes": 2048}, "same"),
        ({"shared_bytes": 40960}, "worse"),
        ({"registers": 40, "spill_bytes": 0}, "mixed"),
        ({"code_bytes": 4096, "mix": {"move": 99}, "barriers": 2}, "worse"),
        ({"mix": {"move": 3}}, "better"),
        ({"mix": {"move": 16}, "accesses": {"global_load 8 B": 8, "global_store 4 B": 4}}, "same"),
        ({"mix": {"move": 1, "fp32": 3}}, "same"),  # two cycles each on an A100
        ({"accesses": {"global_load 16 B": 1, "global_store 4 B": 1}}, "better"),
        ({"accesses": {"global_load 4 B": 4, "global_store 4 B": 1}}, "worse"),
        ({"accesses": {"global_load 4 B": 4, "global_store 16 B": 1}}, "mixed"),
        (
            {
                "registers": 20,
                "mix": {"move": 1},
                "accesses": {"global_load 8 B": 2, "global_store 1 B": 4},
            },
            "worse",
        ),  # narrower stores outweigh occupancy and cycles
        ({"accesses": {"global_load 8 B": 9, "global_load 1 B": 3, "shared_load 4 B": 1}}, "same"),
    ],
)
def test_what_numbers_say(change, status):
    kernel = compared(change)
    assert (kernel.status.value, kernel.failures) == (status, ())
    assert not kernel.has_same_code


def test_a_limit_decides_alone():
    kernel = compared({"registers": 40, "spill_bytes": 0}, "registers +4")
    assert kernel.status is Status.WORSE
    assert kernel.failures == ("registers (allowed: registers +4)",)
    assert compared({"registers": 36, "spill_bytes": 0}, "registers +4").status is Status.MIXED


@pytest.mark.parametrize(
    ("signs", "status"),
    [((), "same"), ((0, 0), "same"), ((1, 0), "better"), ((-2,), "worse"), ((3, -1), "mixed")],
)
def test_verdicts(signs, status):
    assert verdict(signs, ()).value == status
    assert verdict(signs, ("too much",)) is Status.WORSE


def test_each_kernel_is_listed_with_its_file_and_counted():
    base = CodeSide(
        "base", Path("base"),
        (*side("base", {}, file="a.cu").kernels, *side("base", {}, file="b.cu").kernels),
    )  # fmt: skip
    head = CodeSide(
        "head", Path("head"),
        (*side("head", {"registers": 30, "spill_bytes": 4, "digest": "2"}, file="b.cu").kernels,
         *side("head", {"registers": 34, "digest": "3"}, file="a.cu").kernels),
    )  # fmt: skip
    printed = text(diff(base, head, parse("")))
    assert printed.startswith("code of base → head: 1 worse, 1 better\n")
    assert "worse: k (sm_80) in a.cu\n    registers 32 → 34" in printed
    assert "better: k (sm_80) in b.cu\n    registers 32 → 30; spill_bytes 8 B → 4 B" in printed


def test_what_only_a_slow_path_reads_in_wide_pieces_is_no_lost_vectorisation():
    """Double arithmetic that becomes float loses the table of a sine's slow path, too."""
    doubles = {
        "mix": {"fp64": 44, "fp32": 13, "global_load": 5},
        "accesses": {"global_load 16 B": 3, "global_load 8 B": 1, "global_load 4 B": 1},
        "registers": 34, "spill_bytes": 28,
    }  # fmt: skip
    floats = {
        "mix": {"fp64": 2, "fp32": 40, "global_load": 1}, "accesses": {"global_load 4 B": 1},
        "registers": 24, "spill_bytes": 0, "digest": "2",
    }  # fmt: skip
    result = diff(side("base", doubles), side("head", floats), parse(""))
    assert result.kernels[0].status is Status.BETTER


def test_a_kernel_that_is_worse_fails_where_the_word_is_said():
    result = diff(
        side("base", {}), side("head", {"digest": "2", "mix": {"move": 9}}), parse("worse")
    )
    assert result.fails(parse("worse"), allow_gone=False)
    assert not result.fails(parse("registers +8"), allow_gone=False)


def overload(parameters, digest):
    return {"name": "k", "mangled": f"_Z1k{parameters}", "digest": digest}


def test_overloads_are_shown_with_what_distinguishes_them():
    base = side("base", overload("Pfi", "1"), overload("Pdi", "2"))
    head = side("head", overload("Pfi", "1"), overload("Pdi", "3"), overload("Psi", "4"))
    names = {k.shown_name for k in diff(base, head, parse("")).kernels}
    assert names == {"k(float*, …)", "k(double*, …)", "k(short*, …)"}
    assert "same: k(double*, …) (sm_80)" in text(diff(base, head, parse("")))


def test_a_kernel_that_gains_a_parameter_has_one_name():
    result = diff(side("base", overload("Pf", "1")), side("head", overload("Pfi", "2")), parse(""))
    assert [k.shown_name for k in result.kernels] == ["k"]

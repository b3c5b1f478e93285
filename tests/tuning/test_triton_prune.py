"""``triton_prune`` inside Triton's own autotuner, which compiles and launches nothing."""

import logging
import re
from dataclasses import dataclass

import pytest

import perfassert as pa
from perfassert.frontends.generators.triton_arguments import describe_arguments
from perfassert.frontends.toolchain import tools

COUNT = 1 << 20
SOURCE = """
import triton
import triton.language as tl
import perfassert as pa

prune = pa.tuning.triton_prune(0.2, "a100")


def config(block, warps, **more):
    return triton.Config({"BLOCK": block}, num_warps=warps, **more)


SPACE = [config(1024, 4), config(32, 1), config(64, 1), config(32, 4), config(64, 4),
         config(96, 4)]


@triton.autotune(SPACE, key=["n"], prune_configs_by={"early_config_prune": prune})
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def scale(x, y, n, factor, none, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(y + i, factor * tl.load(x + i))
    else:
        tl.store(y + i, factor * tl.load(x + i, mask=i < n), mask=i < n)


def both(configs, named, **kwargs):
    return prune([c for c in configs if c.kwargs["BLOCK"] < 1024], named, **kwargs)


@triton.autotune(SPACE, key=[], prune_configs_by={"early_config_prune": both})
@triton.jit
def wrapped(x, n: tl.int64, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, 1.0, mask=i < n)
"""


@dataclass
class Tensor:
    """The part of a PyTorch tensor that Triton's pruning uses."""

    dtype: str
    shape: tuple[int, ...] = (COUNT,)
    address: int = 1 << 20

    def data_ptr(self):
        return self.address

    def stride(self):
        return (1,) * len(self.shape)


def grid(meta):
    return (-(-meta["n"] // meta["BLOCK"]),)


@pytest.fixture(scope="module")
def functions(tmp_path_factory, import_text):
    pytest.importorskip("triton")
    if tools.find("nvdisasm") is None:
        pytest.skip("nvdisasm is not installed")
    return import_text(tmp_path_factory.mktemp("triton") / "pruned.py", SOURCE)


def pruned(tuner, values, **keywords):
    """Return the configurations as Triton's ``run`` gets them before it measures."""
    tuner.nargs = values
    return tuner.prune_configs(keywords)


def values(dtype="torch.float16", **more):
    return {
        "x": Tensor(dtype), "y": Tensor("torch.float32"), "n": COUNT, "factor": 2.0, "none": None,
        **more,
    }  # fmt: skip


def test_what_is_decided_slower_is_dropped(functions, caplog):
    """A configuration that cannot be predicted is kept; the log line has the counts."""
    kept = pruned(functions.scale, values(), grid=grid, warmup=False)
    assert functions.SPACE[0] in kept
    assert functions.SPACE[5] in kept  # no power of 2, which is for Triton to say
    assert functions.SPACE[1] not in kept
    assert all(any(c is known for known in functions.SPACE) for c in kept)
    (line,) = [r.getMessage() for r in caplog.records if r.name == "perfassert.tuning"]
    dropped = 6 - len(kept)
    assert f"scale on A100-SXM4-40GB: kept {len(kept)} of 6 configurations" in line
    assert f"dropped {dropped} as decided slower" in line
    assert "not predicted and kept 1 (first reason: " in line


def test_order_is_that_of_rank_autotune(functions):
    """The ranking does not call the pruning again, which would call the ranking."""
    types = {"x": "*fp16", "y": "*fp32", "n": "i32", "factor": "fp32"}
    args = {"n": COUNT, "factor": 2.0}
    constants = {"none": None}
    ranking = pa.rank_autotune(functions.scale, types, grid, args, "a100", constexprs=constants)
    assert len(ranking.configs) == 5
    kept = pruned(functions.scale, values(), grid=grid, warmup=False)
    assert kept[0] is ranking.keep(0.2)[0]


def test_a_pruning_of_ones_own_before(functions):
    kept = pruned(functions.wrapped, {"x": Tensor("torch.float32"), "n": COUNT}, grid=grid)
    assert kept
    assert functions.SPACE[0] not in kept


@pytest.mark.parametrize(
    ("keywords", "more", "reason"),
    [
        ({}, {}, "give grid="),
        ({"grid": grid}, {"n": (1, 2)}, r"argument 'n' is \(1, 2\)"),
    ],
)
def test_without_what_is_needed_all_are_kept(functions, caplog, keywords, more, reason):
    with caplog.at_level(logging.WARNING, "perfassert.tuning"):
        assert pruned(functions.scale, values(**more), **keywords) == functions.SPACE
    assert caplog.text.count("kept all 6 configurations") == 1
    assert re.search(reason, caplog.text)


def test_no_autotuner_calls(functions):
    with pytest.raises(pa.RankingError, match="called by no autotuner"):
        pa.tuning.triton_prune(device="a100")(functions.SPACE, {}, grid=grid)


def test_no_device(functions):
    tuner = functions.scale
    before, tuner.early_config_prune = tuner.early_config_prune, pa.tuning.triton_prune()
    try:
        with pytest.raises(pa.RankingError, match="device='a100'"):
            pruned(tuner, values(), grid=grid)
    finally:
        tuner.early_config_prune = before


def test_bad_settings():
    with pytest.raises(pa.RankingError, match="keep must be above 0"):
        pa.tuning.triton_prune(2)
    with pytest.raises(pa.UnknownDevice):
        pa.tuning.triton_prune(device="a1000000")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, "i32"), (-(2**31), "i32"), (2**31, "i64"), (2**63, "u64"), (True, "u1"), (0.5, "fp32"),
        (Tensor("torch.bfloat16"), "*bf16"), (Tensor("torch.float8_e4m3fn"), "*fp8e4nv"),
        (Tensor("torch.bool"), "*u1"), (Tensor("torch.int64"), "*i64"), (Tensor("fp32"), "*fp32"),
    ],
)  # fmt: skip
def test_types_are_those_of_triton(functions, value, kind):
    """Types are those by which Triton's binder specialises a launch."""
    from triton.runtime import jit

    call = describe_arguments(functions.scale.fn.fn, {"x": value})
    assert call.signature == {"x": kind}
    if not isinstance(value, Tensor):
        own = jit.mangle_type(value)
        assert own == kind or (own == "constexpr" and value == 1)


def test_alignment_and_extent_of_a_tensor(functions):
    """Constants and None are no arguments of the launch; a mock has no memory."""
    tensor = Tensor("torch.float16", (100,), 4096 + 8)
    call = describe_arguments(
        functions.scale.fn.fn, {"x": tensor, "y": Tensor("fp32", address=0), "none": None}
    )
    buffer = call.launch["x"]
    assert (buffer.shape, buffer.dtype, buffer.alignment) == ((100,), "float16", 8)
    assert "y" not in call.launch
    assert call.constants == {"none": None}


def test_an_annotation_is_the_type(functions):
    call = describe_arguments(functions.wrapped.fn, {"n": 5, "BLOCK": 64})
    assert call.signature == {"n": "i64"}
    assert call.constants == {"BLOCK": 64}

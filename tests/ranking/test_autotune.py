"""Configurations of autotuned Triton kernels, ordered and pruned."""

import shutil

import pytest

import perfassert as pa
from perfassert.frontends.toolchain import tools
from perfassert.predictor.ahead import compile_together

A100 = "A100-SXM4-40GB"
SOURCE = """
import triton
import triton.language as tl


def config(block, warps, **more):
    return triton.Config({"BLOCK": block}, num_warps=warps, **more)


SPACE = [config(64, 4), config(1024, 4), config(256, 2, maxnreg=32), config(64, 4, num_ctas=2),
         config(96, 4), config(1024, 4)]


@triton.autotune(configs=SPACE, key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def add(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(y + i, tl.load(x + i) + tl.load(y + i))
    else:
        tl.store(y + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


def narrow(configs, named, **kwargs):
    assert named["n"]
    return [c for c in configs if c.num_warps == 2]


@triton.heuristics({"WIDE": lambda args: args["n"] > 100})
@triton.autotune(configs=SPACE[:3], key=["n"], prune_configs_by={"early_config_prune": narrow})
@triton.jit
def pruned(x, n, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, 1.0 if WIDE else 2.0, mask=i < n)


@triton.autotune(configs=[config(64, 4, num_ctas=2)], key=[])
@triton.jit
def clustered(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 0)


@triton.jit
def plain(x):
    tl.store(x, 0)
"""
TYPES = {"x": "*fp32", "y": "*fp32", "n": "i32"}
COUNT = 1 << 20


def grid(given):
    return -(-given["n"] // given["BLOCK"])


@pytest.fixture(scope="module")
def functions(tmp_path_factory, import_text):
    pytest.importorskip("triton")
    if tools.find("nvdisasm") is None:
        pytest.skip("nvdisasm is not installed")
    return import_text(tmp_path_factory.mktemp("triton") / "autotuned.py", SOURCE)


@pytest.fixture(scope="module")
def ranking(functions):
    return pa.rank_autotune(functions.add, TYPES, grid, {"n": COUNT}, A100)


def test_one_run_of_nvdisasm_reads_the_code_of_all(functions, nvdisasm_runs):
    found = pa.rank_autotune(functions.add, TYPES, grid, {"n": COUNT}, A100)
    assert len(found.configs) > 1
    assert len(nvdisasm_runs) == 1


def test_listings_are_those_of_modules_alone(functions, nvdisasm_runs, tmp_path):
    """Modules of Triton have debug information, which is left out of what nvdisasm reads."""

    def kernels():
        for block in (64, 256, 1024):
            constants = {"BLOCK": block, "EVEN": block < 1024}
            kernel = pa.from_triton(functions.add.fn.fn, TYPES, constants)
            yield kernel, pa.Launch(COUNT // block, 128, {"n": COUNT})

    def listings(asked):
        codes = [kernel.compiled.build_for(launch, "sm_80", 32)[0] for kernel, launch in asked]
        assert all('//## File "' in code.built.listing for code in codes)
        return [code.built.listing for code in codes]

    alone = listings(kernels())
    shutil.rmtree(tmp_path / "cache")
    together = list(kernels())
    compile_together((kernel, launch, A100) for kernel, launch in together)
    assert len(nvdisasm_runs) == 3
    assert listings(together) == alone
    assert len(nvdisasm_runs) == 4


def test_order_is_that_of_single_predictions(ranking, functions):
    """The times are those of kernels of from_triton with the heuristic's value."""
    jit = functions.add.fn.fn
    for block, warps, label in ((64, 4, "BLOCK=64 warps=4"), (1024, 4, "BLOCK=1024 warps=4")):
        kernel = pa.from_triton(jit, TYPES, {"BLOCK": block, "EVEN": True}, num_warps=warps)
        alone = pa.predict(kernel, pa.Launch(COUNT // block, warps * 32, {"n": COUNT}), A100)
        assert alone.time == ranking.ranking.prediction(f"{label} stages=3").time
    times = [float(p.time) for _, p in ranking.ranking.entries]
    assert times == sorted(times)
    assert len(times) == 3


def test_what_does_not_run_says_why(ranking):
    assert set(ranking.refused) == {
        "BLOCK=64 warps=4 num_ctas=2 stages=3", "BLOCK=96 warps=4 stages=3",
    }  # fmt: skip
    assert "clusters" in ranking.refused["BLOCK=64 warps=4 num_ctas=2 stages=3"]
    assert "power of 2" in ranking.refused["BLOCK=96 warps=4 stages=3"]
    assert "does not run" in ranking.table()


@pytest.mark.parametrize(("share", "count"), [(0.2, 1), (0.25, 2), (0.6, 3), (1, 3)])
def test_a_share_is_of_all_and_rounded_up(ranking, functions, share, count):
    kept = ranking.keep(share)
    assert len(kept) == count
    assert kept[0] is ranking.best
    assert all(any(c is known for known in functions.SPACE) for c in kept)


@pytest.mark.parametrize("share", [0, -1, 1.5, "0.2", True])
def test_shares_that_are_none(ranking, share):
    with pytest.raises(pa.RankingError, match="above 0 and at most 1"):
        ranking.keep(share)


def test_registers_are_bounded(ranking):
    assert (
        ranking.ranking.prediction("BLOCK=256 warps=2 stages=3 maxnreg=32").resources.registers
        <= 32
    )


def test_pruning_of_its_own_and_the_other_order_of_decorators(functions):
    types = {"x": "*fp32", "n": "i32"}
    ranking = pa.rank_autotune(functions.pruned, types, grid, {"n": COUNT}, A100)
    assert list(ranking.configs.values()) == [functions.SPACE[2]]


def test_nothing_to_choose_from(functions):
    with pytest.raises(pa.RankingError, match=r"decorate it with @triton\.autotune"):
        pa.rank_autotune(functions.plain, {"x": "*fp32"}, 1, {}, A100)
    with pytest.raises(pa.RankingError, match=r"no configuration can be predicted.*\n.*clusters"):
        pa.rank_autotune(functions.clustered, {"x": "*fp32"}, 1, {}, A100)


def test_a_heuristic_that_fails(functions):
    with pytest.raises(pa.RankingError, match="heuristic for 'EVEN' fails with KeyError: 'n'"):
        pa.rank_autotune(functions.add, TYPES, 1, {}, A100)

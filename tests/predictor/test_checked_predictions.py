"""Tests that executed blocks override a closed form that they contradict, and cost one check
else."""

from dataclasses import dataclass, replace
from unittest import mock

import pytest

import perfassert as pa
from perfassert.frontends.cuda.kernels import BuiltCode
from perfassert.kernel.affine import Affine, add
from perfassert.kernel.description import CompiledKernel
from perfassert.kernel.names import LoopCounter
from perfassert.predictor.sample import checked
from perfassert.source import CORRECTED

pytestmark = pytest.mark.exhaustive(one_in=2)

TEXT = """
extern "C" __global__ void rows(const float* in, float* out, int n, int m) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
#pragma unroll 1
    for (int k = 0; k < m; ++k)
        sum += in[k * n + i];
    out[i] = sum;
}
"""
ARGS = {"n": 100_000, "m": 20}
LAUNCH = pa.Launch.cover(100_000, 128, ARGS)


@dataclass(frozen=True, eq=False)
class Tampered(BuiltCode):
    """Its description is wrong in a way that nothing but an execution can tell."""

    change: object = None

    def bind(self, launch, arch, warp_size, executed=None, rare=frozenset(), least=False):
        bound, work = super().bind(launch, arch, warp_size, executed, rare, least)
        return (self.change(bound) if executed is None else bound), work


def shifted(bound):
    first, *others = bound.bound
    return replace(bound, bound=(replace(first, address=add(first.address, Affine(4))), *others))


def transposed(bound):
    """A load whose loop counter steps by one element."""
    first, *others = bound.bound
    terms = tuple((s, 4 if isinstance(s, LoopCounter) else c) for s, c in first.address.terms)
    wrong = Affine(first.address.constant, terms)
    assert wrong != first.address
    return replace(bound, bound=(replace(first, address=wrong), *others))


def longer(bound):
    (loop,) = bound.graph.loops
    graph = replace(bound.graph, loops=(replace(loop, trips=loop.trips + 1),))
    return replace(bound, graph=graph)


def kernel(tmp_path, change=None, name=""):
    (path := tmp_path / "rows.cu").write_text(f"// {change} {name}\n{TEXT}")  # a program of its own
    made = pa.from_cuda(path)
    if change is None:
        return made
    built = made.compiled.build("sm_80")
    code = Tampered(built.built, built.hints, change=change)
    return CompiledKernel(name=made.name, compiled=code)


@pytest.fixture(autouse=True)
def toolchain():
    pytest.importorskip("nvidia.cu13")


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(
    ("change", "line", "said"),
    [
        (shifted, "rows.cu:9", "go elsewhere"),
        (transposed, "rows.cu:9", "go elsewhere"),
        (longer, "rows.cu:", "times, and "),
    ],
)
def test_execution_decides_where_a_description_is_wrong(tmp_path, change, line, said):
    found = pa.predict(kernel(tmp_path, change), LAUNCH, "a100")
    right = pa.predict(kernel(tmp_path), LAUNCH, "a100")
    wrong = [a for a in found.assumptions if a.text.startswith(CORRECTED)]
    assert wrong
    assert said in wrong[0].text
    assert line in str(wrong[0].span)
    assert found.confidence == right.confidence
    assert not found.confidence_reasons
    for name in ("l2_load", "l2_store", "dram_load", "dram_store"):
        volumes = [float(getattr(p.volumes, name).total) for p in (found, right)]
        assert volumes[0] == pytest.approx(volumes[1], rel=0.01)
    assert float(found.time) == pytest.approx(float(right.time), rel=0.05)


def test_checked_blocks():
    """Corners, the representative block, two of chance that are the same each time."""
    found = checked.checked_blocks((3, 2, 0), (7, 5, 1))
    assert {0, 6, 28, 34, 3 + 7 * 2}.issubset(found)
    assert len(found) <= 7
    assert found == checked.checked_blocks((3, 2, 0), (7, 5, 1))
    assert checked.checked_blocks((0, 0, 0), (1, 1, 1)) == (0,)


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("gpu", ["a100", "RTX-2080-Ti", "h100"])
def test_what_is_right_is_not_reported(tmp_path, gpu):
    found = pa.predict(kernel(tmp_path), LAUNCH, gpu)
    assert not [a for a in found.assumptions if a.stands_for]
    assert found.confidence != "guessed"


def test_each_launch_is_checked_once(tmp_path):
    """The check of a launch's blocks decides for that launch and no other."""
    right = kernel(tmp_path, name="once")
    with mock.patch.object(checked, "execute", wraps=checked.execute) as execute:
        for _ in range(2):
            for block in (256, 128, 64):
                pa.predict(right, pa.Launch.cover(100_000, block, ARGS), "a100")
    assert [call.args[1].block[0] for call in execute.call_args_list] == [256, 128, 64]
    (_, launch, _, blocks, limits), _ = execute.call_args
    assert launch.block == (64, 1, 1)
    assert blocks[0] == 0
    assert len(blocks) <= 5
    assert limits.instructions <= 300


def test_contents_are_left_out(tmp_path):
    data = pa.Buffer(2_000_000, fill="random(0, 7)", dtype="float32")
    launch = pa.Launch.cover(100_000, 128, {**ARGS, "in": data})
    with mock.patch.object(checked, "execute", wraps=checked.execute) as execute:
        pa.predict(kernel(tmp_path, name="contents"), launch, "a100")
    regions = execute.call_args.args[2]
    assert regions[0].name == "in"
    assert regions[0].size == 8_000_000
    assert regions[0].content is None


def test_what_the_author_says_is_not_checked(tmp_path):
    """Neither a trip count nor an assumed value is a closed form of ours."""
    (path := tmp_path / "rows.cu").write_text(f"// said\n{TEXT}")
    (line,) = (i for i, text in enumerate(path.read_text().splitlines(), 1) if "for (" in text)
    said = pa.from_cuda(path, trip_counts={f"rows.cu:{line}": 3})
    assert pa.predict(said, LAUNCH, "a100").confidence != "guessed"
    (path := tmp_path / "gather.cu").write_text(
        """extern "C" __global__ void gather(const int* at, const float* in, float* out) {
            const int i = blockIdx.x * blockDim.x + threadIdx.x;
            out[i] = in[at[i]];
        }"""
    )
    gather = pa.from_cuda(path, assume={"at": "threadIdx.x + 256 * blockIdx.x"})
    found = pa.predict(gather, pa.Launch(512, 256), "a100")
    assert found.confidence != "guessed"
    assert not found.confidence_reasons

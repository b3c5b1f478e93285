"""Tests that launches are rejected that a driver rejects: launch bounds, required blocks,
clusters."""

import pytest

import perfassert as pa
from perfassert.frontends.cuda.kernels import BuiltCode
from perfassert.frontends.cuda.proposals import choose_block
from perfassert.frontends.toolchain import tools
from perfassert.frontends.toolchain.binary import LaunchLimits

PTX = """.version 8.0
.target {target}
.address_size 64
.visible .entry fill(.param .u64 a)
{bounds}
{{
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [a];
    cvta.to.global.u64 %rd1, %rd1;
    st.global.u32 [%rd1], 1;
    ret;
}}
"""


@pytest.fixture
def predict(tmp_path):
    if tools.find("ptxas") is None or tools.find("nvdisasm") is None:
        pytest.skip("ptxas or nvdisasm is not installed")

    def predict(bounds, grid, block, device="a100"):
        file = tmp_path / "fill.ptx"
        target = "sm_90" if device == "h100" else "sm_80"
        file.write_text(PTX.format(bounds=bounds, target=target))
        return pa.predict(pa.from_ptx(file), pa.Launch(grid, block), device)

    return predict


@pytest.mark.parametrize(
    ("bounds", "block", "why"),
    [
        ("", 1024, ""),
        (".maxntid 128, 1, 1", 128, ""),
        (".maxntid 128, 1, 1", (64, 2), ""),
        (
            ".maxntid 128, 1, 1",
            129,
            r"at most 128 threads in a block \(__launch_bounds__\), not 129",
        ),
        (".reqntid 64, 2, 1", (64, 2), ""),
        (".reqntid 64, 2, 1", 128, "blocks of 64×2×1 threads, not 128×1×1"),
    ],
)
def test_blocks_are_those_that_the_code_allows(predict, bounds, block, why):
    if not why:
        assert predict(bounds, 16, block).time > 0
        return
    with pytest.raises(
        pa.LaunchError, match=f"CUDA refuses the launch of fill: .*{why}"
    ) as refused:
        predict(bounds, 16, block)
    assert refused.value.exceeds_device  # so that a tuner drops it


def test_grids_are_multiples_of_clusters(predict):
    bounds = ".explicitcluster\n.reqnctapercluster 2, 1, 1"
    assert predict(bounds, 16, 32, "h100").time > 0
    with pytest.raises(
        pa.LaunchError, match="15×1×1 blocks is no multiple of its clusters of 2×1×1"
    ):
        predict(bounds, 15, 32, "h100")


def test_code_that_says_nothing_takes_every_launch():
    assert LaunchLimits().find_violation((7, 5, 3), (1024, 1, 1)) == ""


@pytest.mark.parametrize(("most", "block"), [(0, (256,)), (128, (128,)), (1024, (256,))])
def test_proposed_blocks_keep_to_launch_bounds(most, block):
    assert choose_block(None, most, ["threadIdx.x"]) == block


STAGED = """
extern "C" __global__ void staged(float* a, int n) {
    __shared__ float s[1024];
    s[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    a[threadIdx.x] = s[n];
}
"""


def test_what_does_not_fit_is_refused_before_its_code_is_described(tmp_path, monkeypatch):
    if tools.find("nvrtc") is None or tools.find("nvdisasm") is None:
        pytest.skip("nvrtc or nvdisasm is not installed")

    def program(*_, **__):
        raise AssertionError("described")

    monkeypatch.setattr(BuiltCode, "program", program)
    file = tmp_path / "staged.cu"
    file.write_text(STAGED)
    launch = pa.Launch(16, 128, {"n": 5}, shared_bytes=166000)
    with pytest.raises(pa.LaunchError, match="170096 bytes of shared memory per block are more"):
        pa.predict(pa.from_cuda(file, "staged"), launch, "a100")

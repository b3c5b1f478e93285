"""A first prediction of a source of which nothing else is said."""

import json

import pytest

import perfassert as pa
from perfassert.cli.main import main

SOURCE = """\
extern "C" __global__ void scale(float* out, const float* in, float by, int n, bool twice) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = twice ? by * in[i] * 2 : by * in[i];
}
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "scale.cu"
    path.write_text(SOURCE)
    try:
        pa.kernels(path, "sm_80")
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))
    return str(path)


def test_device_launch_and_numbers_are_proposed(source, capsys):
    assert main(["predict", source, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err.strip() == (
        "perfassert: proposed, to be replaced: --device A100-SXM4-40GB --domain 1048576 "
        "--block 256 --arg by=1.0 --arg n=1048576 --arg twice=1"
    )
    proposed = json.loads(out)
    words = err.partition("replaced: ")[2].split()
    assert main(["predict", source, "--json", *words]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == proposed
    assert not err


def test_what_is_given_is_kept(source, capsys):
    given = ["--device", "v100", "--arg", "n=4096", "--json"]
    assert main(["predict", source, *given]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["device"].startswith("V100")
    assert "--device" not in err
    assert "n=" not in err


def test_part_of_a_launch_is_a_mistake(source, capsys):
    assert main(["predict", source, "--device", "a100", "--block", "64"]) == 2
    assert "--grid is missing" in capsys.readouterr().err


TILES = """\
extern "C" __global__ void BOUNDS tiles(float* out, const float* in, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  int z = blockIdx.z * blockDim.z + THREAD;
  if (z > 0) out[(z * n + y) * n + x] = in[(z * n + y) * n + x];
}
"""


@pytest.mark.parametrize(
    ("bounds", "thread", "block"),
    [
        ("", "threadIdx.z", "32,4,2"),
        ("__launch_bounds__(64)", "threadIdx.z", "32,2,1"),
        ("", "1", "32,8,1"),
    ],
)
def test_a_proposal_has_the_dimensions_that_the_code_reads(
    source, tmp_path, capsys, bounds, thread, block
):
    path = tmp_path / "tiles.cu"
    path.write_text(TILES.replace("BOUNDS", bounds).replace("THREAD", thread))
    assert main(["predict", str(path), "--device", "a100", "--json"]) == 0
    out, err = capsys.readouterr()
    assert f"--domain 128,128,64 --block {block} --arg n=128" in err
    assert json.loads(out)["volumes"]["l2_store"]["total"] > 0


@pytest.mark.parametrize(
    ("block", "proposed"),
    [
        ("128", "--domain 128,128,64 --block 128,1,1"),
        ("dim3(32, 4, 1)", "--domain 128,128,64 --block 32,4,1"),
    ],
)
def test_a_written_block_is_extended(source, tmp_path, capsys, block, proposed):
    path = tmp_path / "tiles.cu"
    launch = f"void go(float* a) {{ tiles<<<dim3(1, 2, 3), {block}>>>(a, a, 1); }}\n"
    path.write_text(TILES.replace("BOUNDS", "").replace("THREAD", "0") + launch)
    assert main(["predict", str(path), "--device", "a100", "--json"]) == 0
    assert proposed in capsys.readouterr().err


def test_a_written_block_has_no_dimension_that_the_code_does_not_read(source, tmp_path, capsys):
    path = tmp_path / "scale.cu"
    path.write_text(SOURCE + "void go(float* a) { scale<<<9, dim3(64, 1, 1)>>>(a, a, 1, 1, 1); }\n")
    assert main(["predict", str(path), "--device", "a100", "--json"]) == 0
    assert "--domain 1048576 --block 64 " in capsys.readouterr().err

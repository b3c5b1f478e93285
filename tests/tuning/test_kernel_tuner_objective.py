"""``kernel_tuner_objective`` inside Kernel Tuner, whose measurements come from a cache file."""

import json

import numpy as np
import pytest

import perfassert as pa
from perfassert.frontends.toolchain import tools

COUNT = 1 << 22
SOURCE = """
extern "C" __global__ void add(float *c, const float *a, const float *b, int n) {
  for (int k = 0; k < tile; k++) {
    int i = (blockIdx.x * tile + k) * block_size_x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
  }
}
"""
SPACE = {"block_size_x": [1, 32, 256, 2048], "tile": [1, 2]}


@pytest.fixture
def tune(tmp_path, monkeypatch):
    kernel_tuner = pytest.importorskip("kernel_tuner")
    if tools.find("nvdisasm") is None:
        pytest.skip("nvdisasm is not installed")
    monkeypatch.chdir(tmp_path)
    entries = {
        f"{block},{tile}": {
            "block_size_x": block, "tile": tile, "time": 1 / block, "compile_time": 1,
            "verification_time": 0, "benchmark_time": 1, "strategy_time": 0, "framework_time": 0,
        }
        for block in SPACE["block_size_x"] for tile in SPACE["tile"]
    }  # fmt: skip
    cache = {
        "device_name": "NVIDIA A100-PCIE-40GB", "kernel_name": "add", "problem_size": COUNT,
        "tune_params_keys": [*SPACE], "tune_params": SPACE, "objective": "time", "cache": entries,
    }  # fmt: skip
    (tmp_path / "cache.json").write_text(json.dumps(cache))
    field = np.zeros(COUNT, np.float32)

    def run(strategy, source=SOURCE, **more):
        results, _ = kernel_tuner.tune_kernel(
            "add", source, COUNT, [field, field, field, np.int32(COUNT)], SPACE,
            grid_div_x=["block_size_x", "tile"], cache="cache.json", simulation_mode=True,
            strategy=strategy, quiet=True, **more,
        )  # fmt: skip
        return [(result["block_size_x"], result["tile"]) for result in results]

    return run


def test_what_is_decided_slower_is_not_measured(tune, caplog):
    """The device is that of the cache file; blocks of 2048 threads are not for it."""
    measured = tune(pa.tuning.kernel_tuner_objective(0.25))
    assert set(measured) & {(256, 1), (256, 2)}
    assert not {(1, 1), (1, 2), (2048, 1), (2048, 2)} & set(measured)
    assert f"add on A100-PCIE-40GB: kept {len(measured)} of 8 configurations" in caplog.text
    assert "dropped 2 that the device cannot run" in caplog.text


def test_a_budget_takes_the_first(tune):
    strategy = pa.tuning.kernel_tuner_objective(1.0, "a100-pcie-40gb")
    everything = tune(strategy)
    assert tune(strategy, strategy_options={"max_fevals": 2}) == everything[:2]


def test_a_kernel_in_a_file_with_a_header(tune, tmp_path):
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "size.cuh").write_text("#define SIZE block_size_x\n")
    text = '#include "size.cuh"\n' + SOURCE.replace("* block_size_x", "* SIZE")
    (folder / "add.cu").write_text(text)
    measured = tune(pa.tuning.kernel_tuner_objective(0.25), str(folder / "add.cu"))
    assert measured[0] == tune(pa.tuning.kernel_tuner_objective(0.25))[0]
    assert (1, 1) not in measured


def test_no_cuda(tune):
    source = "void add(float *c, float *a, float *b, int n) {}"
    with pytest.raises(pa.KernelSourceError, match=r"kernel 'add' is in C; kernels in CUDA"):
        tune(pa.tuning.kernel_tuner_objective(), source, lang="C")


def test_what_does_not_compile_is_kept(tune, caplog):
    measured = tune(pa.tuning.kernel_tuner_objective(0.2, "a100"), SOURCE.replace("int i", "itn i"))
    assert len(measured) == 6
    assert "not predicted and kept 6 (first reason: " in caplog.text


def test_settings_are_checked():
    with pytest.raises(pa.RankingError, match="keep must be above 0"):
        pa.tuning.kernel_tuner_objective(0)
    with pytest.raises(pa.UnknownDevice):
        pa.tuning.kernel_tuner_objective(device="gpu")

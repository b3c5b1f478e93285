"""Matrix units, asynchronous copies and rows: kernels of machine learning, without a GPU."""

from pathlib import Path

import pytest

import perfassert as pa

KERNELS = Path(__file__).parent / "kernels"
AMPERE = pytest.mark.perf(devices=["A100-SXM4-40GB"])
ADA = pytest.mark.perf(devices=["RTX-4090"])
HOPPER = pytest.mark.perf(devices=["H100-SXM5-80GB"])
BLACKWELL = pytest.mark.perf(devices=["B200"])


def kernel(name, **defines):
    return pa.from_cuda(KERNELS / f"{name}.cu", defines=defines)


def tiles(m, n, k, stages=3, tile=(128, 128), split=1):
    """The launch of a GEMM with cp.async: tiles of 32 halves along k."""
    return pa.Launch(
        (n // tile[1], m // tile[0], split), 32 * (tile[0] // 64) * (tile[1] // 64),
        args={"n": n, "k": k}, shared_bytes=stages * sum(tile) * 64,
    )  # fmt: skip


def boxes(n, k, threads, stages=4):
    """The launch of a GEMM with tensor maps: boxes of 128 rows of 64 halves."""
    maps = {name: pa.TensorMap((n, k), (128, 64), "float16", swizzle=128) for name in "ab"}
    return pa.Launch(
        (n // 128, n // 128), threads, args={"n": n, "k": k, **maps},
        shared_bytes=stages * 32768 + 1024,
    )  # fmt: skip


def tflops(prediction, operations):
    return operations / float(prediction.time) / 1e12


@AMPERE
def test_copies_ahead_keep_the_matrix_units_busy(perf):
    p = perf(kernel("gemm_cp_async"), tiles(4096, 4096, 4096))
    p.expect(confidence="measured | extrapolated", spill_bytes=0)
    assert 150 < tflops(p, 2 * 4096**3) < 312


@AMPERE
def test_parts_of_k_fill_the_device_where_tiles_do_not(perf):
    """64 tiles leave 44 of 108 units idle; four parts of k for each do not."""
    whole = perf(kernel("gemm_cp_async"), tiles(1024, 1024, 8192))
    parts = perf(kernel("gemm_cp_async", SPLIT=4), tiles(1024, 1024, 8192, split=4))
    assert float(parts.time) < 0.8 * float(whole.time)


@ADA
def test_eight_bits_are_twice_as_fast(perf):
    halves = perf(kernel("gemm_cp_async"), tiles(4096, 4096, 4096))
    bytes_ = perf(kernel("gemm_cp_async", FP8=1), tiles(4096, 4096, 2048))
    assert float(bytes_.time) < 0.6 * float(halves.time)
    bytes_.expect(confidence="measured | extrapolated")


@AMPERE
def test_attention_in_one_pass_reads_keys_and_values_from_the_l2(perf):
    p = perf(
        kernel("flash_attention"),
        pa.Launch((2048 // 64, 64), 128, args={"length": 2048, "scale": 0.18}),
    )
    p.expect(limiter="!dram", spill_bytes=0, confidence="measured | extrapolated")
    assert 100 < tflops(p, 4 * 2048**2 * 64 * 64) < 312


@HOPPER
def test_a_producer_hides_the_copies_of_two_consumers(perf):
    one, four = (
        perf(kernel("gemm_wgmma_tma", STAGES=s), boxes(4096, 4096, 384, s)) for s in (1, 4)
    )
    four.expect(confidence="measured | extrapolated", spill_bytes=0)
    assert float(four.time) < 0.5 * float(one.time)
    assert 400 < tflops(four, 2 * 4096**3) < 989


@BLACKWELL
def test_tensor_memory_takes_the_sums(perf):
    p = perf(kernel("gemm_tcgen05"), boxes(4096, 4096, 192))
    p.expect(confidence="measured | extrapolated")
    assert 500 < tflops(p, 2 * 4096**3) < 2250


@AMPERE
def test_softmax_reads_and_writes_once(perf):
    p = perf(kernel("softmax"), pa.Launch(8192, 256, args={"n": 4096}))
    p.expect(limiter="dram", dram_volume="== 128 B/thread", confidence="measured | extrapolated")


@AMPERE
def test_layer_norm_reads_and_writes_once(perf):
    p = perf(kernel("layer_norm"), pa.Launch(8192, 128, args={"n": 1024}))
    p.expect(limiter="dram", dram_store="== 128 B/thread", confidence="measured | extrapolated")

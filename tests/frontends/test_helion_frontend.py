"""Tests of what :func:`from_helion` reads of the code that Helion prints, and rejects.

The files in ``examples/generated`` are written by hand, in Helion's layout.
"""

import subprocess
import sys
from pathlib import Path

import pytest

import perfassert as pa

GENERATED = Path(__file__).parents[2] / "examples/generated"
A100 = "A100-SXM4-40GB"
TYPES = {"x": "*fp32", "y": "*fp32", "out": "*fp32"}
ROWS = {"x": "*fp32", "out": "*fp32"}
SIZES = {"m": 8192, "x.size(0)": 8192, "x.size(1)": 1024, "out.stride(0)": 1, "x.stride(0)": 1024,
         "x.stride(1)": 1}  # fmt: skip


@pytest.fixture
def written(tmp_path):
    pytest.importorskip("triton")

    def write(name, old="", new=""):
        text = (GENERATED / f"helion_{name}.py").read_text()
        assert old in text
        path = tmp_path / "printed.py"
        path.write_text(text.replace(old, new))
        return path

    return write


def test_static_shapes(written, toolchain):
    kernel, launch = pa.from_helion(written("exponents"), TYPES)
    assert launch.grid == (4096 // 32 * (2048 // 64), 1, 1)
    assert launch.block == (256, 1, 1)
    volumes = pa.predict(kernel, launch, A100).volumes
    assert volumes.l2_store.total == 4 * 4096 * 2048
    assert volumes.dram_load.total == pytest.approx(4 * 4096 * 2048, rel=0.02)


def test_dynamic_shapes(written, toolchain):
    path = written("row_sums")
    with pytest.raises(pa.KernelSourceError, match=r"'x.size\(0\)' has no value; give sizes="):
        pa.from_helion(path, ROWS)
    kernel, launch = pa.from_helion(path, ROWS, sizes=SIZES)
    assert launch.grid == (2048, 1, 1)
    assert launch.args["x_size_1"] == 1024
    volumes = pa.predict(kernel, launch, A100).volumes
    assert volumes.l2_load.total == pytest.approx(4 * 8192 * 1024, rel=0.01)


def test_nothing_is_imported(written):
    code = (
        "import sys, perfassert as pa\n"
        f"pa.from_helion({str(written('exponents'))!r}, {TYPES})\n"
        "print(sorted({'torch', 'helion', 'printed'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("old", "new", "types", "message"),
    [
        ("", "", {"x": "*fp32", "out": "*fp32"}, "'y' of '_helion_scaled_sum' needs a type"),
        ("", "", {**TYPES, "z": "*fp32"}, "has no parameter 'z'"),
        ("x, y, out, num_warps", "x, y, num_warps", TYPES, "has the parameters x, y, out"),
        ("_launcher(_helion", "other(_helion", TYPES, "HELION_PRINT_OUTPUT_CODE=1"),
        ("tl.cdiv(4096", "eval(4096", TYPES, "it names 'eval', which is none of its own"),
        ("libdevice.exp2", "libdevice.nothing", TYPES, "'libdevice.nothing' is no part"),
        ("load = tl", "load == tl = tl", TYPES, "is no Python"),
        ("num_warps=8", "num_warps=1000000000", TYPES, "num_warps must be an integer from 1 to 32"),
        ("num_warps=8", "num_warps=9 * 2 ** 99", TYPES, "only \\+ - \\* // %"),
        ("num_warps=8", "num_warps=9223372036854775807 * 9", TYPES, "more than 64 bits"),
    ],
)
def test_refused(written, old, new, types, message):
    with pytest.raises(pa.KernelSourceError, match=message):
        pa.from_helion(written("exponents", old, new), types)


def test_one_of_several(written):
    path = written("exponents")
    assert pa.from_helion(path, TYPES, kernel="scaled_sum")[0].name == "_helion_scaled_sum"
    with pytest.raises(pa.KernelSourceError, match="name one of its kernels: _helion_scaled_sum"):
        pa.from_helion(path, TYPES, kernel="other")
    with pytest.raises(pa.KernelSourceError, match="cannot be read"):
        pa.from_helion(path.with_name("nowhere.py"), TYPES)

"""Tensor maps and clusters in ``*.perf.toml``: what they come to, what is wrong with others."""

from pathlib import Path

import pytest

import perfassert as pa
from perfassert.perf_toml.read import read_perf_file

EXAMPLES = Path(__file__).parents[2] / "examples"
FILE = """
[[test]]
name = "copy"
kernel.accesses = { fields = [{ name = "a", shape = 64 }], loads = ["a[x]"] }
launch = { grid = 4, block = 32, cluster = 2, args = { m = %s } }
expect = { limiter = "dram" }
"""


@pytest.fixture
def read(tmp_path):
    def reading(table):
        (path := tmp_path / "x.perf.toml").write_text(FILE % table)
        (case,) = read_perf_file(path, "x.perf.toml")
        return case.launch

    return reading


@pytest.mark.parametrize(
    ("table", "meant"),
    [
        ("{ shape = [64, 32], box = [8, 16] }", pa.TensorMap((64, 32), (8, 16))),
        ('{ shape = 4096, box = "2 * 128", dtype = "uint8" }', pa.TensorMap(4096, 256, "uint8")),
        (
            '{ shape = [4, "2 ** 3", 64], box = [1, 8, 64], dtype = "float32", swizzle = 128,'
            " strides = [4096, 256], element_strides = [1, 2, 1] }",
            pa.TensorMap(
                (4, 8, 64), (1, 8, 64), "float32", strides=(4096, 256),
                element_strides=(1, 2, 1), swizzle=128,
            ),
        ),
    ],
)  # fmt: skip
def test_a_table_with_a_box_is_a_tensor_map(read, table, meant):
    launch = read(table.replace("2 ** 3", "2 * 4"))
    assert launch.args["m"] == meant
    assert launch.cluster == (2, 1, 1)


def test_a_structure_may_have_a_member_of_that_name(read):
    assert read("{ box = 3, size = 4 }").args["m"] == {"box": 3, "size": 4}


WRONG = {
    "{ box = [8, 16] }": ".shape: missing; a tensor map says the shape of its tensor",
    "{ shape = [64, 32], box = [8] }": ": TensorMap: box must be 2 integers from 1 on",
    "{ shape = [64, 32], box = [8, 0] }": ": TensorMap: box must be at least 1, not 0",
    "{ shape = 64, box = 8, swizzle = 48 }": ": TensorMap: swizzle must be 0, 32, 64 or 128",
    '{ shape = 64, box = 8, dtype = "half" }': ": TensorMap: dtype must be a type of 1 to 8 bytes",
    "{ shape = 64, box = 8, swizle = 64 }": ".swizle: unknown key; did you mean 'swizzle'?",
    '{ shape = 64, box = "8.5" }': ".box: ",
}


@pytest.mark.parametrize("table", WRONG)
def test_what_is_wrong_is_said_with_its_key(read, table):
    with pytest.raises(pa.PerfFileError) as caught:
        read(table)
    assert str(caught.value).startswith(f"x.perf.toml:5: test[0].launch.args.m{WRONG[table]}")


def test_a_kernel_of_copies_is_predicted_as_from_python():
    """The example without Python; nothing is assumed about its tensor maps."""
    pytest.importorskip("nvidia.cu13")
    cases = read_perf_file(EXAMPLES / "kernels.perf.toml", "kernels.perf.toml")
    (case,) = (c for c in cases if "tensor maps" in c.header.name)
    found = pa.predict(case.kernel, case.launch, "h100")
    args = {
        "a": pa.TensorMap((4096, 4096), (128, 64), swizzle=128),
        "b": pa.TensorMap((4096, 4096), (256, 64), swizzle=128), "n": 4096, "k": 4096,
    }  # fmt: skip
    launch = pa.Launch((16, 32), 384, args, 3 * 384 * 128 + 1024)
    assert float(found.time) == float(pa.predict(case.kernel, launch, "h100").time)
    assert not [a.text for a in found.assumptions if "tensor map" in a.text]

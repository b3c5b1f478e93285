"""The shipped suite of our own kernels, for the tests here."""

from pathlib import Path

import pytest

import perfassert as pa
from perfassert.lab.validation.build import make_device, make_kernel, make_launch, row_names
from perfassert.lab.validation.read import read_suite

PATH = Path(__file__).parents[3] / "validation" / "own_kernels.toml"
DEVICES = ("A100-SXM4-40GB", "RTX-2080-Ti", "H100-SXM5-80GB")


def suite():
    return read_suite(PATH)


def predicted(own, kernel, row, device, clock_hz=""):
    """The prediction of one row, as ``validate`` makes it; skips without a toolchain."""
    spec = own.kernels[kernel]
    cells = {**row, "device": device, "clock_hz": clock_hz}
    names = row_names(spec, cells)
    chosen = make_device(own.device, cells)
    made = make_kernel(spec, names, kernel)
    try:
        return pa.predict(made, make_launch(spec.launch, names, made, chosen), chosen)
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))

"""A suite names the toolchain that compiled what was measured."""

import pytest
from copy_suite import ONE_KERNEL

from perfassert.errors import SuiteError
from perfassert.frontends.toolchain.toolchains import find
from perfassert.lab.validation import report
from perfassert.lab.validation.data import read_rows
from perfassert.lab.validation.read import read_suite
from perfassert.lab.validation.run import validate
from perfassert.lab.validation.toolchain import as_installed


def suite(folder, release):
    (folder / "one.cu").write_text('extern "C" __global__ void one(int* a) { *a = 1; }')
    (folder / "one.csv").write_text("blocks,time_us\n1000,5\n")
    settings = f'toolchain = "{release}"'
    (folder / "one.toml").write_text(ONE_KERNEL.format(name="one", settings=settings))
    return read_suite(folder / "one.toml")


def test_its_kernels_are_compiled_by_it(tmp_path):
    read = suite(tmp_path, "12.4")
    assert read.toolchain == "12.4"
    assert read.kernels[""].cuda.extra == {"toolchain": "12.4"}


@pytest.mark.parametrize("release", ["12", "new"])
def test_what_is_no_release_is_named_with_its_key(tmp_path, release):
    with pytest.raises(SuiteError, match=r"toolchain: .* no release of the CUDA toolkit"):
        suite(tmp_path, release)


def test_another_one_compiles_where_it_is_not_installed_and_the_report_says_so(tmp_path):
    read = suite(tmp_path, "12.95")
    assert find("nvrtc", "12.95") is None
    there, note = as_installed(read)
    assert there.kernels[""].cuda.extra == {}
    assert "toolchain 12.95 is not installed" in note
    result = validate(read, read_rows(read))
    assert result.note == note
    assert note in str(report.text(result))
    assert report.to_dict(result)["note"] == note


def test_a_suite_without_one_says_nothing(tmp_path):
    read = suite(tmp_path, "")
    assert as_installed(read) == (read, "")
    assert read.kernels[""].cuda.extra == {}

"""``perfassert doctor``: one line each, and the command that remedies it."""

import json
import re

import pytest

from perfassert.cli import doctor
from perfassert.cli.main import main
from perfassert.frontends.toolchain import tools
from perfassert.frontends.toolchain.diagnostics import failure


def examined():
    return {check.name: check for check in doctor.run_checks()}


def test_exit_code_and_lines(capsys):
    code = main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    missing = [line for line in lines if line.startswith("missing")]
    assert code == (1 if missing else 0)
    assert sum("→" in line for line in lines) == len(missing)
    assert main(["doctor", "--json"]) == code
    said = json.loads(capsys.readouterr().out)
    assert [s["name"] for s in said] == list(examined())
    assert sum(not s["ok"] for s in said) == len(missing)


def test_what_is_missing_says_how_to_mend_it(monkeypatch, tmp_path):
    monkeypatch.setattr(tools, "find", lambda name: None)
    monkeypatch.setattr(tools, "include_dirs", lambda: (str(tmp_path),))
    monkeypatch.setattr(tools, "host_compiler", lambda: None)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "file" / "below"))
    found = examined()
    for name in ("nvrtc", "cuobjdump", "headers (runtime)", "C++ compiler", "cache"):
        assert not found[name].ok
        assert found[name].remedy
    assert found["python"].ok
    assert found["devices"].ok


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (
            "nvcc fatal   : Failed to preprocess host compiler properties.",
            "apt-get install g\\+\\+",
        ),
        ('a.cu(1): catastrophic error: cannot open source file "cublas_v2.h"', "nvidia-cublas"),
        ("a.cu:1:10: fatal error: cublas_v2.h: No such file or directory", "nvidia-cublas"),
        ("a.cu:1:10: fatal error: cufftXt.h: No such file or directory", "nvidia-cufft"),
        ("a.cu:1:10: fatal error: mpi.h: No such file or directory", "libopenmpi-dev"),
        ("a.h:4504: fatal error: nv/target: No such file or directory", "nvidia-cuda-cccl"),
        ("a.cu:1:10: fatal error: helper_cuda.h: No such file or directory", "cuda-samples"),
        ("a.cu:1:10: fatal error: ATen/ATen.h: No such file or directory", "include_paths"),
        ("a.cu:1:10: fatal error: mine/own.h: No such file or directory", "include_dirs="),
        ("a.cu:1:10: fatal error: mine/own.h: No such file or directory", "an empty file"),
        ("a.cu(3): error: texture is not a template", "texture objects"),
    ],
)
def test_errors_name_the_package_or_the_option(log, said):
    assert re.search(said, str(failure("nvcc", log, "a.cu")))


def test_headers_of_libraries_are_found_where_wheels_put_them(monkeypatch, tmp_path):
    for place in ("cu13/include", "cufft/include", "cu13/lib"):
        (tmp_path / place).mkdir(parents=True)
    monkeypatch.setattr(tools, "package_folders", lambda name: (tmp_path,))
    monkeypatch.setattr(tools, "_toolkits", lambda: ("nowhere",))
    assert "none; for files" in examined()["headers of libraries"].said
    (tmp_path / "cu13/include/cublas_v2.h").touch()
    (tmp_path / "cufft/include/cufft.h").touch()  # as a wheel of CUDA 12 does
    found = examined()["headers of libraries"]
    assert found.ok
    assert found.said.startswith("cuBLAS, cuFFT; for files that include others: pip install ")
    assert "nvidia-curand" in found.said
    assert "cublas" not in found.said


def test_a_header_of_a_submodule_that_is_not_checked_out(tmp_path):
    (tmp_path / ".gitmodules").write_text(
        '[submodule "a"]\n\tpath = third_party/a\n\turl = ../a.git\n'
        '[submodule "b"]\n\tpath = third_party/b\n\turl = ../b.git\n'
    )
    (tmp_path / "src").mkdir()
    (tmp_path / "third_party" / "b").mkdir(parents=True)
    (tmp_path / "third_party" / "b" / "b.h").touch()
    log = f"{tmp_path}/src/a.cu:1:10: fatal error: a/own.h: No such file or directory"
    said = str(failure("nvcc", log, "a.cu"))
    assert "not checked out: third_party/a; git submodule update --init" in said
    (tmp_path / "third_party" / "a").mkdir()
    assert "third_party/a;" in str(failure("nvcc", log, "a.cu"))
    (tmp_path / "third_party" / "a" / "a.h").touch()
    assert "not checked out" not in str(failure("nvcc", log, "a.cu"))

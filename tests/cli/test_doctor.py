"""``perfassert doctor``: one line each, and the command that remedies it."""

import json
import re
import sys
from types import SimpleNamespace

import pytest

from perfassert.cli import doctor
from perfassert.cli.main import main
from perfassert.frontends.toolchain import diagnostics, matching, tools
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
        assert found[name].step
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


NVCC = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm")
OF_13_0 = {**dict.fromkeys(NVCC, "13.0.88"), "nvidia-cuda-runtime": "13.0.96"}
OF_13_5 = {**dict.fromkeys(NVCC, "13.5.37"), "nvidia-cuda-runtime": "13.5.21"}
MIXED = {**OF_13_5, "nvidia-cuda-runtime": "13.0.96"}


def install_fake_wheels(monkeypatch, versions, toolkit=None):
    """Wheels of NVIDIA's with these versions, and cuda-toolkit 13.0.3 with its pins, or none."""
    versions = {**versions, "cuda-toolkit": toolkit}
    pins = {**OF_13_0, "nvidia-cuda-cccl": "13.0.85", "nvidia-npp": "13.0.1.2"}
    monkeypatch.setattr(matching, "wheel_version", versions.get)
    requires = [f"{wheel}=={pin}.*; extra == 'all'" for wheel, pin in pins.items()]
    requires.append("nvidia-nvjitlink<14,>=13.0.88; extra == 'all'")
    monkeypatch.setattr(matching.metadata, "requires", lambda name: requires)


class TestReleases:
    @pytest.mark.parametrize(("versions", "toolkit"), [(OF_13_5, None), (OF_13_0, "13.0.3.0")])
    def test_one_release_is_well(self, monkeypatch, versions, toolkit):
        install_fake_wheels(monkeypatch, versions, toolkit)
        assert examined()["releases"].ok

    def test_cuda_toolkit_decides_where_it_is_installed(self, monkeypatch):
        install_fake_wheels(monkeypatch, MIXED, "13.0.3.0")
        check = examined()["releases"]
        assert not check.ok
        assert "nvidia-cuda-nvcc 13.5.37" in check.said
        assert "nvidia-cuda-runtime" not in check.said
        assert check.packages == ("cuda-toolkit[nvcc,nvrtc,cccl]==13.0.*",)

    def test_cccl_has_a_release_by_its_pin_alone(self, monkeypatch):
        install_fake_wheels(monkeypatch, {**OF_13_0, "nvidia-cuda-cccl": "13.3.5.0.6"}, "13.0.3.0")
        assert "nvidia-cuda-cccl 13.3.5.0.6 beside CUDA 13.0" in examined()["releases"].said
        install_fake_wheels(monkeypatch, {**OF_13_0, "nvidia-cuda-cccl": "13.0.8"}, "13.0.3.0")
        assert not examined()["releases"].ok

    def test_else_the_newest_release_does(self, monkeypatch):
        install_fake_wheels(monkeypatch, {**OF_13_5, "nvidia-cuda-runtime": "13.10.1"})
        assert examined()["releases"].packages == ("cuda-toolkit[nvcc,nvrtc,cccl]==13.10.*",)

    def test_a_failure_in_the_toolkit_s_headers_blames_the_mixture(self, monkeypatch, tmp_path):
        install_fake_wheels(monkeypatch, MIXED, "13.0.3.0")
        monkeypatch.setattr(diagnostics, "include_dirs", lambda: (str(tmp_path),))
        inside = f"{tmp_path}/cub/block.cuh(3): error: expected a ;"
        assert "doctor --fix" in str(failure("nvcc", inside, "k.cu"))
        misfit = "k.cu(1): error: CUDA compiler and CUDA toolkit headers are incompatible"
        assert "doctor --fix" in str(failure("nvcc", misfit, "k.cu"))
        assert "doctor" not in str(failure("nvcc", "k.cu(3): error: expected a ;", "k.cu"))


class TestFix:
    def test_one_command_brings_all_that_pip_can_bring(self, monkeypatch, capsys):
        install_fake_wheels(monkeypatch, MIXED, "13.0.3.0")
        monkeypatch.setattr(tools, "find", lambda name: None)
        assert main(["doctor", "--fix"]) == 1
        (line,) = capsys.readouterr().out.splitlines()
        assert line.startswith("pip install 'perfassert[cuda]' ")
        assert line.count("perfassert[cuda]") == 1
        assert "'cuda-toolkit[nvcc,nvrtc,cccl]==13.0.*'" in line

    def test_yes_runs_it(self, monkeypatch):
        wanted = doctor.Check("releases", False, "mixed", packages=("nvidia-nvvm==13.0.*",))
        monkeypatch.setattr(doctor, "run_checks", lambda: iter([wanted]))
        ran = []
        done = SimpleNamespace(returncode=0)
        monkeypatch.setattr(doctor.subprocess, "run", lambda words: ran.append(words) or done)
        assert main(["doctor", "--fix", "--yes"]) == 0
        assert ran == [[sys.executable, "-I", "-m", "pip", "install", "nvidia-nvvm==13.0.*"]]

    def test_nothing_to_fix(self, monkeypatch, capsys):
        monkeypatch.setattr(doctor, "run_checks", lambda: iter([doctor.Check("a", True, "b")]))
        assert main(["doctor", "--fix"]) == 0
        assert "nothing to fix" in capsys.readouterr().err

    def test_yes_alone_is_an_error(self, capsys):
        assert main(["doctor", "--yes"]) == 2
        assert "--fix" in capsys.readouterr().err


def test_torch_s_headers_where_torch_is_installed(monkeypatch, tmp_path):
    monkeypatch.setattr(diagnostics, "package_folders", lambda name: (tmp_path,))
    log = "a.cu:1:10: fatal error: c10/cuda/CUDAStream.h: No such file or directory"
    said = str(failure("nvcc", log, "a.cu"))
    assert f"-I {tmp_path / 'include'}" in said
    assert "pip install" not in said


def test_a_macro_of_the_build():
    said = str(failure("nvrtc", 'k.cu(3): error: identifier "TILE_X2" is undefined', "k.cu"))
    assert "-D TILE_X2=…, in tests defines={'TILE_X2': …}" in said
    assert "-D" not in str(failure("nvrtc", 'k.cu(3): error: identifier "tile" is undefined', "k"))

"""Toolchains by release: which one compiles, what is said where it is not there."""

import pytest

import perfassert as pa
from perfassert.cli import doctor
from perfassert.cli.main import main
from perfassert.errors import KernelSourceError, ToolchainMissing
from perfassert.frontends.toolchain import toolchains, tools
from perfassert.frontends.toolchain.build import Source, build

pytestmark = pytest.mark.skipif("os.name != 'posix'", reason="the fake tools are shell scripts")
PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry nothing() { ret; }
"""


def wheel(folder, name, version, file, text=""):
    """A file of a wheel, and what pip leaves beside it."""
    place = folder / "nvidia" / file
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    place.chmod(0o755)
    about = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return place


def fake(folder, release):
    """A toolchain of CUDA 12, whose ptxas is the installed one."""
    folder.mkdir()
    real = tools.find("ptxas")
    run = f'#!/bin/sh\nexec "{real.path if real else "false"}" "$@"\n'
    wheel(folder, "nvidia-cuda-nvcc-cu12", f"{release}.131", "cuda_nvcc/bin/ptxas", run)
    wheel(folder, "nvidia-cuda-nvrtc-cu12", f"{release}.127", "cuda_nvrtc/lib/libnvrtc.so.12")
    wheel(folder, "nvidia-cuda-runtime-cu12", f"{release}.127", "cuda_runtime/include/cuda_fp16.h")
    return folder


@pytest.fixture
def two(tmp_path, monkeypatch):
    """Return folders of two fake toolchains, of releases that nobody has installed."""
    folders = [fake(tmp_path / name, name) for name in ("12.94", "12.93")]
    monkeypatch.setenv("PERFASSERT_TOOLCHAINS", ":".join(map(str, folders)))
    return folders


def test_releases_are_those_of_each_folder(two):
    found = toolchains.installed_toolchains()
    assert found[12, 94] == found[12, 93] == ("nvrtc", "ptxas")
    assert list(found) == sorted(found, reverse=True)
    tool = toolchains.find("ptxas", "12.93")
    assert tool.path == str(two[1] / "nvidia" / "cuda_nvcc" / "bin" / "ptxas")
    assert str(tool) == "ptxas 12.93"
    assert toolchains.find("ptxas", "12.95") is None


def test_the_preferred_tool_stays_the_environments_own(two, monkeypatch):
    with_folders = tools.find("ptxas")
    monkeypatch.delenv("PERFASSERT_TOOLCHAINS")
    without = tools.find("ptxas")
    assert without is None or with_folders == without


def test_headers_are_those_of_the_release(two):
    nvrtc = toolchains.find("nvrtc", "12.94")
    assert tools.headers_of(nvrtc) == (str(two[0] / "nvidia" / "cuda_runtime" / "include"),)


def test_headers_of_two_major_versions_in_one_folder(tmp_path, monkeypatch):
    folder = fake(tmp_path / "both", "12.94")
    new = wheel(folder, "nvidia-cuda-nvrtc", "13.94.1", "cu13/lib/libnvrtc.so.13")
    wheel(folder, "nvidia-cuda-runtime", "13.94.1", "cu13/include/cuda_fp16.h")
    monkeypatch.setenv("PERFASSERT_TOOLCHAINS", str(folder))
    assert toolchains.find("nvrtc", "13.94").path == str(new)
    for release, part in (("13.94", "cu13"), ("12.94", "cuda_runtime")):
        headers = tools.headers_of(toolchains.find("nvrtc", release))
        assert headers == (str(folder / "nvidia" / part / "include"),)


@pytest.mark.parametrize(
    ("asked", "wheels"),
    [("12.95", "'nvidia-cuda-nvrtc-cu12==12.95.*'"), ("13.95", "'nvidia-cuda-nvrtc==13.95.*'")],
)
def test_what_is_not_installed_says_what_is_and_how_to_get_it(two, tmp_path, asked, wheels):
    source = tmp_path / "k.cu"
    source.write_text('extern "C" __global__ void k() {}')
    kernel = pa.from_cuda(source, toolchain=asked)
    with pytest.raises(ToolchainMissing) as caught:
        pa.predict(kernel, pa.Launch(1, 32), "a100")
    text = str(caught.value)
    assert f"toolchain {asked} is not installed" in text
    assert "12.94 (nvrtc, ptxas), 12.93 (nvrtc, ptxas)" in text
    assert f"pip install {wheels}" in text


@pytest.mark.parametrize("asked", ["12", "new", "12.4.1", "", 12.4])
def test_a_release_has_two_numbers(tmp_path, asked):
    source = tmp_path / "k.cu"
    source.write_text("")
    with pytest.raises(KernelSourceError, match=r"no release of the CUDA toolkit; write it as"):
        pa.from_cuda(source, toolchain=asked)


def test_a_listing_is_not_compiled(tmp_path):
    (tmp_path / "k.sass").write_text("")
    with pytest.raises(KernelSourceError, match="toolchain needs a source that is compiled"):
        build(Source(tmp_path / "k.sass", "sass", toolchain="12.4"), "sm_80")


@pytest.mark.skipif(tools.find("ptxas") is None, reason="needs ptxas")
def test_results_are_kept_by_toolchain(two, tmp_path, runs):
    path = tmp_path / "k.ptx"
    path.write_text(PTX)
    for asked in ("12.94", "12.93", "12.94"):
        binary = build(Source(path, "ptx", toolchain=asked), "sm_80")
        assert binary.tools.startswith(f"ptxas {asked}, nvdisasm")
    assert runs.count("ptxas") == 2
    plain = build(Source(path, "ptx"), "sm_80")
    assert plain.listing == binary.listing
    assert plain.tools != binary.tools


def test_doctor_lists_toolchains(two):
    (check,) = (c for c in doctor.run_checks() if c.name == "toolchains")
    assert check.ok
    assert "12.94 (nvrtc, ptxas), 12.93 (nvrtc, ptxas)" in check.said


def test_a_release_of_cuda_12_compiles_for_volta_itself():
    assert toolchains.knows_legacy(tools.Tool("nvrtc", "/none", "12.4.127"))
    assert not toolchains.knows_legacy(tools.Tool("nvrtc", "/none", "13.0.1"))
    assert not toolchains.knows_legacy(tools.Tool("nvrtc", "/none"))


def test_the_installed_release_is_the_one_that_compiles(tmp_path):
    if (nvrtc := tools.find("nvrtc")) is None or tools.find("nvdisasm") is None:
        pytest.skip("needs the extra cuda")
    path = tmp_path / "k.cu"
    path.write_text('extern "C" __global__ void k(int* a) { *a = 1; }')
    asked = ".".join(map(str, nvrtc.release()))
    named = build(Source(path, "cuda", toolchain=asked), "sm_80")
    assert named.tools == build(Source(path, "cuda"), "sm_80").tools
    assert named.tools.startswith(f"nvrtc {asked}")


@pytest.mark.parametrize(
    "words", [["kernels", "k.cu", "--arch", "sm_80"], ["init", "k.cu", "--device", "a100"],
              ["diff", "k.cu", "k.cu", "--arch", "sm_80"]],
)  # fmt: skip
def test_commands_take_a_release(two, tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.cu").write_text('extern "C" __global__ void k() {}')
    assert main([*words, "--toolchain", "12.95"]) == 2
    assert "toolchain 12.95 is not installed" in capsys.readouterr().err

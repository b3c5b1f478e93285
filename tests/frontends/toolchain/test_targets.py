"""Tests of compile targets: features of one architecture, families, and the user's choice."""

import pytest

from perfassert.errors import KernelSourceError
from perfassert.frontends.toolchain.architecture import (
    Architecture,
    architecture,
    best_code,
    best_ptx,
)
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.options import CompileTarget, targets

pytestmark = pytest.mark.exhaustive(one_in=3)

PLAIN = "__global__ void k(int* a) { a[threadIdx.x] = __CUDA_ARCH__; }"
WGMMA = """\
__global__ void k(int* a) {
  asm volatile("wgmma.fence.sync.aligned;\\n");
  asm volatile("wgmma.commit_group.sync.aligned;\\n");
  asm volatile("wgmma.wait_group.sync.aligned 0;\\n");
  a[threadIdx.x] = 1;
}
"""
PTX = """\
.version 8.8
.target {target}
.address_size 64
.visible .entry k(.param .u64 data)
{{
  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [data];
  mov.u32 %r1, %tid.x;
  {body}
  st.global.u32 [%rd1], %r1;
  ret;
}}
"""


def of(*names):
    return [architecture(name) for name in names]


@pytest.mark.parametrize(
    ("offered", "device", "code", "ptx"),
    [
        (("sm_80", "sm_86", "sm_90"), "sm_86", "sm_86", "sm_86"),
        (("sm_80", "sm_86", "sm_90"), "sm_89", "sm_86", "sm_86"),
        (("sm_80", "sm_86", "sm_90"), "sm_120", None, "sm_90"),
        (("sm_90", "sm_90a"), "sm_90", "sm_90a", "sm_90a"),
        (("sm_90a",), "sm_100", None, None),
        (("sm_100", "sm_100f", "sm_100a"), "sm_103", "sm_100f", "sm_100f"),
        (("sm_100f",), "sm_120", None, None),
        (("sm_86",), "sm_80", None, None),
    ],
)
def test_what_a_driver_takes(offered, device, code, ptx):
    named = architecture(device)
    assert best_code(of(*offered), named) == (architecture(code) if code else None)
    assert best_ptx(of(*offered), named) == (architecture(ptx) if ptx else None)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("-arch=sm_90a",), [("sm_90a", "sm_90a"), ("sm_90a", None)]),
        (("-arch", "compute_80"), [("sm_80", None), ("sm_80", None)]),
        (("-arch=compute_80", "-code=sm_86,compute_80"), [("sm_80", "sm_86"), ("sm_80", None)]),
        (
            ("-gencode arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=[sm_90,sm_90a]"),
            [("sm_80", "sm_80"), ("sm_90", "sm_90"), ("sm_90", "sm_90a")],
        ),
        (("-arch=native",), []),
        (("--gpu-architecture=all-major", "-O3"), []),
    ],
)
def test_what_the_options_ask_for(tmp_path, words, found):
    source = Source(tmp_path / "k.cu", "cuda", options=words)
    assert targets(source) == [
        CompileTarget(architecture(virtual), architecture(real) if real else None)
        for virtual, real in found
    ]


def test_spelling():
    assert str(architecture("compute_103f")) == "sm_103f"
    assert Architecture(120, "a").virtual == "compute_120a"
    for text in ("sm_9", "sm_90b", "90", "sm_90a "):
        with pytest.raises(KernelSourceError, match="no architecture"):
            architecture(text)


@pytest.mark.usefixtures("toolchain")
class TestCuda:
    def test_features_of_one_architecture_are_seen_in_the_text(self, compiled):
        binary = compiled("k.cu", WGMMA, arch="sm_90")
        assert binary.arch == "sm_90a"
        assert "WARPGROUP.ARRIVE" in binary.listing

    def test_elsewhere_they_are_an_error_with_its_place(self, compiled, tmp_path):
        with pytest.raises(KernelSourceError, match=r"wgmma\.fence.*\n(.*\n)*.*-arch=sm_"):
            compiled("k.cu", WGMMA, arch="sm_100", options=("-arch=sm_100",))

    @pytest.mark.exhaustive(one_in=2)
    @pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_100f", "sm_103a", "sm_120a"])
    def test_variants_that_the_options_name(self, compiled, arch):
        device = arch.rstrip("af")
        assert compiled("k.cu", PLAIN, arch=device, options=(f"-arch={arch}",)).arch == arch

    @pytest.mark.usefixtures("ptxas")
    @pytest.mark.exhaustive(one_in=2)
    @pytest.mark.parametrize(
        ("option", "seen", "arch"),
        [
            ("-arch=sm_80", 0x320, "sm_80"),  # code of the same major version runs as it is
            ("-gencode=arch=compute_80,code=compute_80", 0x320, "sm_86"),
            ("-gencode=arch=compute_80,code=sm_86", 0x320, "sm_86"),
            ("-arch=sm_86", 0x35C, "sm_86"),
        ],
    )
    def test_the_user_s_architecture_is_honoured(self, compiled, option, seen, arch):
        binary = compiled("k.cu", PLAIN, arch="sm_86", options=(option,))
        assert binary.arch == arch
        assert f", {seen:#x} ;" in binary.listing  # __CUDA_ARCH__, an immediate operand


@pytest.mark.usefixtures("ptxas")
class TestPtx:
    def test_features_come_along(self, compiled):
        text = PTX.format(target="sm_90a", body="wgmma.fence.sync.aligned;")
        binary = compiled("k.ptx", text, arch="sm_90")
        assert binary.arch == "sm_90a"
        assert "WARPGROUP.ARRIVE" in binary.listing

    @pytest.mark.exhaustive(one_in=2)
    @pytest.mark.parametrize(
        ("target", "device", "arch"),
        [
            ("sm_100f", "sm_103", "sm_103f"),
            ("sm_100a", "sm_100", "sm_100a"),
            ("sm_103a", "sm_103", "sm_103a"),
            ("sm_120a", "sm_120", "sm_120a"),
            ("sm_90", "sm_120", "sm_120"),
        ],
    )
    def test_targets(self, compiled, target, device, arch):
        assert compiled("k.ptx", PTX.format(target=target, body=""), arch=device).arch == arch

    @pytest.mark.parametrize(
        ("target", "device", "why"),
        [
            ("sm_90a", "sm_100", "for sm_90a alone; the device is sm_100"),
            ("sm_100f", "sm_120", "for sm_100f and its family; the device is sm_120"),
            ("sm_90", "sm_80", "for sm_90 or later; the device is sm_80"),
        ],
    )
    def test_a_target_that_does_not_run(self, compiled, target, device, why):
        with pytest.raises(KernelSourceError, match=rf"k\.ptx:2: the PTX is {why}"):
            compiled("k.ptx", PTX.format(target=target, body=""), arch=device)

    def test_a_nul_at_the_end_is_that_of_a_string(self, compiled):
        text = PTX.format(target="sm_80", body="")
        assert compiled("a.ptx", f"{text}\0").listing == compiled("b.ptx", text).listing
        with pytest.raises(KernelSourceError, match="NUL byte"):
            compiled("c.ptx", text.replace("ret", "r\0t"))

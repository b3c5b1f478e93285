"""PTX, cubins and listings; hostile ones too."""

import random
import re
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

import perfassert as pa
from perfassert.errors import KernelSourceError, ToolchainMissing
from perfassert.frontends.toolchain import containers, modules, tools
from perfassert.frontends.toolchain.architecture import architecture
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.build import build, compiled_module, to_fixture
from perfassert.frontends.toolchain.elf import Cubin

pytestmark = pytest.mark.exhaustive(one_in=2)

LOOP = Path(__file__).parents[1] / "fixtures" / "loop.cubin"
PTX = """\
// by hand
.version 7.0
.target sm_70
.address_size 64

.visible .entry scale(.param .u64 data, .param .u32 n)
{
  .reg .b32 %r<4>; .reg .b64 %rd<4>;  .reg .f32 %f<3>;
  ld.param.u64 %rd1, [data];
  /* two
     lines */
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd1, %rd1, %rd2;
  ld.global.f32 %f1, [%rd1];
  add.f32 %f1, %f1, %f1;
  st.global.f32 [%rd1], %f1;
  ret;
}
"""
KERNELS = """\
__constant__ float weights[2] = {1.f, 2.f};
template <typename T> __global__ void one(T* a) { a[threadIdx.x] += 1; }
template __global__ void one<float>(float*);
template __global__ void one<int>(int*);
__global__ void two(float* a, int n) {
  __shared__ float s[64]; s[threadIdx.x] = a[n]; __syncthreads(); a[0] = s[63] * weights[n]; }
"""


@pytest.fixture
def cubin(toolchain, tmp_path):
    """The content of a cubin for sm_80 with three kernels."""
    path = tmp_path / "kernels.cu"
    path.write_text(KERNELS)
    return compiled_module(Source(path, "cuda"), "sm_80").cubin


@pytest.mark.usefixtures("ptxas")
class TestPtx:
    def test_parameters_have_the_names_of_the_text(self, compiled):
        binary = compiled("scale.ptx", PTX)
        assert [p.name for p in binary.parameters] == ["data", "n"]
        assert "LDG" in binary.listing

    def test_a_device_that_ptxas_does_not_know(self, compiled, tmp_path):
        with pytest.raises(
            ToolchainMissing, match="does not know sm_199.*nvidia-cuda-nvcc"
        ) as error:
            compiled("scale.ptx", PTX, arch="sm_199")
        assert str(error.value).startswith(f"{tmp_path}/scale.ptx: ptxas ")

    def test_error_has_its_place(self, compiled, tmp_path):
        with pytest.raises(KernelSourceError) as caught:
            compiled("scale.ptx", PTX.replace("add.f32", "addd.f32"))
        assert str(caught.value).startswith(f"{tmp_path}/scale.ptx:16: ")
        assert "addd.f32 %f1" in str(caught.value)

    def test_newer_version_than_the_tool_knows(self, compiled):
        with pytest.raises(KernelSourceError, match=r"scale\.ptx:2: Unsupported \.version 99\.9"):
            compiled("scale.ptx", PTX.replace("7.0", "99.9"))

    def test_target_newer_than_the_device(self, compiled):
        with pytest.raises(KernelSourceError, match=r"scale\.ptx:3: the PTX is for sm_90"):
            compiled("scale.ptx", PTX.replace("7.0", "8.0").replace("sm_70", "sm_90"))

    def test_options(self, compiled):
        assert compiled("scale.ptx", PTX, options=("-maxrregcount=24", "-Xptxas", "-O1"))
        with pytest.raises(KernelSourceError, match="does not apply to PTX"):
            compiled("scale.ptx", PTX, options=("-use_fast_math",))
        with pytest.raises(KernelSourceError, match="need CUDA source"):
            compiled("scale.ptx", PTX, defines={"A": 1})

    @pytest.mark.parametrize("text", ["", "rubbish", PTX[:200], "\x7fELF"])
    def test_rubbish(self, compiled, text):
        with pytest.raises(KernelSourceError, match=r"bad\.ptx"):
            compiled("bad.ptx", text)


NEXT_STEP = (
    r'PTX is compiled by ptxas, but ptxas is not installed.*pip install "perfassert\[cuda\]"'
)


class TestPtxWithoutPtxas:
    """Nothing else reads PTX: the error names the place and the next step."""

    @pytest.fixture(autouse=True)
    def without_ptxas(self, monkeypatch):
        known = tools.candidates
        monkeypatch.setattr(tools, "candidates", lambda n: () if n == "ptxas" else known(n))

    def test_a_file(self, tmp_path):
        path = tmp_path / "scale.ptx"
        path.write_text(PTX)
        kernel = pa.from_ptx(path, "scale", parameters=("a", "count"), toolchain=None)
        with pytest.raises(ToolchainMissing, match=rf"^{re.escape(str(path))}: {NEXT_STEP}"):
            pa.predict(kernel, pa.Launch(4, 128), "a100")

    def test_text_that_an_object_holds(self):
        kernel = pa.from_source_object(SimpleNamespace(ptx=PTX, name="scale"))
        with pytest.raises(ToolchainMissing, match=NEXT_STEP):
            pa.predict(kernel, pa.Launch(4, 128), "a100")

    def test_a_member_of_a_fat_binary(self, tmp_path):
        path = tmp_path / "member"
        path.write_text(PTX)
        member = containers.ContainerMember("k.1.sm_80.ptx", architecture("sm_80"), True, path)
        with pytest.raises(ToolchainMissing, match=rf"^app: k\.1\.sm_80\.ptx: {NEXT_STEP}"):
            modules.module(modules.assembly(member, "app", "sm_80"))

    def test_a_toolchain_of_a_release(self, tmp_path):
        path = tmp_path / "scale.ptx"
        path.write_text(PTX)
        with pytest.raises(
            ToolchainMissing, match=r"scale\.ptx: .* ptxas of toolchain 12\.4 is not"
        ):
            build(Source(path, "ptx", toolchain="12.4"), "sm_80")


class TestCubin:
    def test_facts(self, compiled, cubin):
        binary = compiled("k.cubin", cubin, "two")
        assert (binary.mangled, binary.arch, binary.shared_bytes) == ("_Z3twoPfi", "sm_80", 256)
        assert [(p.name, p.pointer, p.dtype) for p in binary.parameters] == [
            ("arg0", True, "float"),
            ("arg1", False, "int"),
        ]
        assert binary.constants[3] == bytes.fromhex("0000803f00000040")
        assert compiled("k.cubin", cubin, "one<int>").mangled == "_Z3oneIiEvPT_"

    def test_names(self, compiled, cubin):
        with pytest.raises(KernelSourceError, match=r"ambiguous.*one<float>\(float\*\), one<int>"):
            compiled("k.cubin", cubin, "one")
        with pytest.raises(
            KernelSourceError, match=r"name the kernel: .*one<float>, one<int>, two"
        ):
            compiled("k.cubin", cubin)

    def test_code_runs_within_its_major_version(self, compiled, cubin):
        assert compiled("k.cubin", cubin, "two", arch="sm_86").arch == "sm_80"
        with pytest.raises(KernelSourceError, match="cubin for sm_80; the device is sm_90"):
            compiled("k.cubin", cubin, "two", arch="sm_90")

    def test_resources_agree_with_cuobjdump(self, cubin, tmp_path):
        path = tools.need("nvdisasm").path.replace("nvdisasm", "cuobjdump")
        (tmp_path / "k.cubin").write_bytes(cubin)
        try:
            command = [path, "-res-usage", str(tmp_path / "k.cubin")]
            text = tools.run_tool("cuobjdump", command, folder=tmp_path)
        except KernelSourceError:
            pytest.skip("cuobjdump is not installed")
        facts = Cubin(cubin, "k")
        assert len(facts.kernels()) == 3
        for name in facts.kernels():
            usage = text.stdout.split(f"Function {name}:")[1].split("\n")[1]
            assert f"REG:{facts.registers(name)} STACK:{facts.local_bytes(name)} " in usage
            assert f"SHARED:{facts.shared_bytes(name)} " in usage

    def test_every_truncation_and_random_damage_is_a_source_error(self, cubin):
        for length in range(0, len(cubin), 97):
            with pytest.raises(KernelSourceError, match="no readable cubin"):
                Cubin(cubin[:length], "cut")
        dice = random.Random(1)
        for _ in range(300):
            damaged = bytearray(cubin)
            for _ in range(8):
                damaged[dice.randrange(len(damaged))] = dice.randrange(256)
            query_everything(bytes(damaged))


def test_functions_of_the_driver_have_no_code_in_a_module(toolchain, tmp_path):
    """nvdisasm ends where it is asked for ``vprintf``, which has a symbol and no section."""
    source = tmp_path / "print.cu"
    source.write_text('__global__ void k(float* a) { printf("%f", a[threadIdx.x]); }')
    functions = Cubin(compiled_module(Source(source, "cuda"), "sm_80").cubin, "k").functions
    assert not {"vprintf"} & {*functions.values()}
    assert functions


def query_everything(content):
    try:
        facts = Cubin(content, "damaged")
        for name in facts.kernels():
            for ask in (facts.registers, facts.shared_bytes, facts.local_bytes, facts.parameters):
                ask(name)
            facts.parameter_base(name)
            facts.constants(name)
            facts.code_symbols(name)
        facts.ptx()
    except KernelSourceError:
        pass


def test_random_bytes_are_no_cubin(compiled, monkeypatch):
    monkeypatch.setattr(tools, "need", lambda name: tools.Tool(name, name))
    dice = random.Random(2)
    for size in (0, 1, 15, 64, 500):
        for head in (b"", b"\x7fELF\x02\x01\x01\x41\x08"):
            with pytest.raises(KernelSourceError, match=r"r\.cubin is no readable cubin"):
                compiled("r.cubin", head + dice.randbytes(size))


LISTING = """\
\t.target\tsm_80

//--------------------- .text.scale               --------------------------
\t.section\t.text.scale,"ax",@progbits
\t.sectioninfo\t@"SHI_REGISTERS=10"
scale:
.text.scale:
        /*0000*/                   EXIT ;       /* 0x000000000000794d */
                                                /* 0x000fea0003800000 */
//--------------------- .text.other               --------------------------
\t.section\t.text.other,"ax",@progbits
\t.sectioninfo\t@"SHI_REGISTERS=12"
.text.other:
        /*0000*/                   EXIT ;       /* 0x000000000000794d */
                                                /* 0x000fea0003800000 */
"""
HEADER = """\
//perfassert: registers=10 shared_bytes=128 local_bytes=0x10 parameter_base=0x160 arch=sm_80
//perfassert: kernel=scale parameters=a:0:8:pointer:unsigned%20int,n:8:4:value
"""


class TestListing:
    def test_bare(self, compiled):
        binary = compiled("l.sass", LISTING, "scale")
        assert (binary.registers, binary.code_bytes, binary.parameter_base) == (10, 16, 0x160)
        assert ".text.other" not in binary.listing
        assert len(binary.assumptions) == 3
        with pytest.raises(KernelSourceError, match=r"name the kernel: .*other, scale"):
            compiled("l.sass", LISTING)

    def test_header(self, compiled):
        binary = compiled("l.sass", HEADER + LISTING + "//ptx: // one\n//ptx:\n//ptx: ret;\n")
        assert (binary.kernel, binary.shared_bytes, binary.local_bytes) == ("scale", 128, 16)
        assert binary.parameters[0].dtype == "unsigned int"
        assert [p.pointer for p in binary.parameters] == [True, False]
        assert "ret;" not in binary.listing
        assert binary.assumptions == ()

    @pytest.mark.parametrize(
        ("old", "new", "why"),
        [
            ("registers=", "regs=", "unknown header key 'regs'"),
            ("shared_bytes=128", "shared_bytes=-1", "shared_bytes: '-1'"),
            ("local_bytes=0x10", "local_bytes=ten", "local_bytes: 'ten'"),
            ("a:0:8:pointer", "a:0:pointer", "name:offset:size:pointer"),
            ("kernel=scale", "kernel=scape", "no kernel 'scape'.*mean 'scale'"),
            ("arch=sm_80", "arch=sm_90", "listing for sm_90; the device is sm_80"),
            ("arch=sm_80", "constants=3:zz", "bank:hex"),
        ],
    )
    def test_bad_header(self, compiled, old, new, why):
        with pytest.raises(KernelSourceError, match=why):
            compiled("l.sass", HEADER.replace(old, new) + LISTING)

    @pytest.mark.parametrize("text", ["", "rubbish\n", "//perfassert: registers=1\n"])
    def test_rubbish(self, compiled, text):
        with pytest.raises(KernelSourceError, match=r"l\.sass"):
            compiled("l.sass", text)

    def test_fixture_round_trip(self, compiled, tmp_path, cubin):
        for binary in (
            compiled("kernels.cu", KERNELS, "two", defines={"X": "1"}),
            compiled("k.cubin", cubin, "one<int>"),
            compiled("l.sass", LISTING, "scale"),
        ):
            path = tmp_path / "fixture.sass"
            path.write_text(to_fixture(binary))
            again = build(Source(path, "sass"), "sm_80")
            assert to_fixture(again) == to_fixture(binary)
            assert again.digest == binary.digest
            assert build(Source(path, "sass", binary.kernel), "sm_80") == again


@pytest.mark.parametrize("count", [0, 3])
def test_barriers_that_flags_of_the_section_count(count):
    """Before CUDA 13 no attribute does; the compiler's own number lies in bits 20 to 26."""
    content = bytearray(LOOP.read_bytes())
    headers, size = struct.unpack_from("<Q", content, 40)[0], 64
    (kernel,) = Cubin(bytes(content), "loop.cubin").kernels()
    at = [s.name for s in Cubin(bytes(content), "loop.cubin").sections].index(f".text.{kernel}")
    (flags,) = struct.unpack_from("<Q", content, headers + size * at + 8)
    struct.pack_into("<Q", content, headers + size * at + 8, flags | count << 20)
    assert Cubin(bytes(content), "loop.cubin").barriers(kernel) == count

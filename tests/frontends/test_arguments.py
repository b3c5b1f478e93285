"""Arguments as a caller has them: floats, pointers, buffers, structures."""

import ctypes
import re
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perfassert as pa
from perfassert.frontends.binding.encoding import Misfit, check_elements, encode
from tests.frontends.described import KERNELS, missing

pytestmark = pytest.mark.exhaustive(one_in=4)

needs_tools = pytest.mark.skipif(missing() is not None, reason=f"{missing()} is not installed")
N = 1 << 16


def kernel(name, **more):
    return pa.from_cuda(KERNELS / "arguments.cu", name, **more)


def predicted(name, args, **more):
    launch = pa.Launch(grid=N // 256, block=256, args=args)
    return pa.predict(kernel(name, **more), launch, "A100-SXM4-40GB")


def loaded(prediction):
    """Bytes by field, each sector once."""
    fields = prediction.volumes.l2_load.fields
    return {name: float(v.parts["compulsory"]) for name, v in fields.items()}


def stored(prediction):
    return float(prediction.volumes.l2_store.total)


@pytest.mark.parametrize(
    ("written", "given", "fitting"),
    [
        ("const int", "float32", "int32"),
        ("int", "int64", "int32"),
        ("unsigned int", "float64", "int32"),
        ("float", "float64", "float32"),
        ("double", "int64", "float64"),
        ("char", "int16", "int8"),
    ],
)
def test_an_array_of_other_numbers_does_not_fit(written, given, fitting):
    with pytest.raises(Misfit, match=f"an array of {given} does not have: give it as {fitting},"):
        check_elements(written, given)


@pytest.mark.parametrize(
    ("written", "given"),
    [
        ("const int", "uint32"), ("float", "float32"), ("int", "uint8"), ("bool", "bool"),
        ("void", "int64"), ("float4", "float32"), (None, "int32"), ("T", "float64"),
        ("__half", "uint16"), ("float", "complex64"), ("unsigned char", "int8"),
    ],
)  # fmt: skip
def test_bytes_and_what_has_no_number_fit(written, given):
    check_elements(written, given)


@needs_tools
def test_contents_of_another_type_are_an_error(tmp_path):
    """They were read as other indices: a gather took 7 times as long, and nothing was said."""
    (tmp_path / "gather.cu").write_text(GATHER)
    keys = pa.Buffer(N, "float32", fill="constant 1")
    launch = pa.Launch(N // 256, 256, {"n": N, "p": keys})
    with pytest.raises(pa.LaunchError, match="'p' of kernel 'gather': points to unsigned int, wh"):
        pa.predict(pa.from_cuda(tmp_path / "gather.cu"), launch, "a100")


# The bits that a parameter holds


@given(st.floats(width=32, allow_nan=False), st.sampled_from(["float", "const float", None]))
def test_floats_are_ieee_754(value, dtype):
    assert encode(value, dtype, 4) == int(np.float32(value).view(np.int32))


@given(st.floats(allow_nan=False), st.sampled_from(["double", None]))
def test_doubles_are_ieee_754(value, dtype):
    assert encode(value, dtype, 8) == int(np.float64(value).view(np.int64))


@given(st.integers(-(2**15), 2**15))
def test_an_integer_for_a_float_is_its_value(value):
    assert encode(value, "float", 4) == encode(float(value), "float", 4)
    assert encode(value, "int", 4) == encode(float(value), "int", 4) == value
    assert encode(value, "__half", 2) == int(np.float16(value).view(np.int16))


def test_bfloat16_is_the_upper_half_of_a_float():
    assert encode(1.5, "__nv_bfloat16", 2) == int(np.float32(1.5).view(np.int32)) >> 16


@pytest.mark.parametrize(
    ("value", "dtype", "size", "said"),
    [
        (1.5, "int", 4, "is int; 1.5 does not fit"),
        (2**32, "int", 4, "has 32 bits"),
        (1e39, "float", 4, "beyond its type"),
        ("3", "int", 4, "'3' does not fit"),
    ],
)
def test_what_a_parameter_cannot_take(value, dtype, size, said):
    with pytest.raises(Misfit, match=said):
        encode(value, dtype, size)


def test_a_pointer_takes_addresses_and_none():
    assert encode(None, "float", 8, pointer=True) == 0
    assert encode(2**63, "float", 8, pointer=True) == -(2**63)
    with pytest.raises(Misfit, match="is a pointer"):
        encode(1.0, "float", 8, pointer=True)


# What they decide


@needs_tools
@pytest.mark.parametrize(
    ("bias", "fields"),
    [
        ({}, {"x", "bias"}),
        ({"bias": None}, {"x"}),
        ({"bias": 0}, {"x"}),
        ({"bias": 4096}, {"x", "bias"}),
        ({"bias": pa.Buffer(N)}, {"x", "bias"}),
        ({"bias": np.zeros(N, np.float32)}, {"x", "bias"}),
    ],
)
def test_a_pointer_that_nobody_gave_is_not_null(bias, fields):
    found = loaded(predicted("guarded", {"n": N, **bias}))
    assert found == dict.fromkeys(fields, 4.0 * N)


@needs_tools
def test_arguments_by_position():
    assert set(loaded(predicted("guarded", (None, None, None, N)))) == {"x"}
    assert set(loaded(predicted("guarded", (None, 1, None, N)))) == {"x", "bias"}
    assert stored(predicted("bits", (pa.Buffer(N, "float32"), 1.0, 1.0))) == 4 * 0x3F8
    with pytest.raises(pa.LaunchError, match="needs its argument 'n'"):
        predicted("guarded", (None, None, None, None))


@needs_tools
def test_all_that_is_not_given_is_asked_for_at_once(tmp_path):
    path = tmp_path / "many.cu"
    path.write_text(
        'extern "C" __global__ void many(const float* x, float* y, int n, float by, int rows, '
        "int pitch) {\n int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;\n"
        "float s = 0; for (int r = 0; r < rows; r++) s += x[r * pitch + i];\n y[i] = s * by; }\n"
    )
    kernel, given = pa.from_cuda(path), {"rows": 2, "n": N, "pitch": N}
    for known, rest in (((), {"n", "rows", "pitch"}), (("rows", "n"), {"pitch"})):
        with pytest.raises(pa.LaunchError, match="needs its argument") as wrong:
            pa.predict(kernel, pa.Launch(1, 256, {k: given[k] for k in known}), "A100-SXM4-40GB")
        assert set(re.findall(r"\b(?:n|by|rows|pitch)\b", str(wrong.value))) == rest
    pa.predict(kernel, pa.Launch(1, 256, given), "A100-SXM4-40GB")


@needs_tools
def test_an_alias_lies_in_the_same_memory():
    apart = predicted("guarded", {"n": N})
    same = predicted("guarded", {"n": N, "bias": pa.Buffer(alias="x")})
    shifted = predicted("guarded", {"n": N, "bias": pa.Buffer(alias="x", offset=128)})
    assert loaded(apart) == {"x": 4.0 * N, "bias": 4.0 * N}
    assert loaded(same) == {"x": 4.0 * N}
    assert loaded(shifted) == {"x": 4.0 * N + 128 * N // 256}  # 128 B more in each block


@needs_tools
def test_an_offset_moves_the_first_sector():
    aligned = predicted("guarded", {"n": N, "bias": None, "x": pa.Buffer(N, alignment=128)})
    moved = predicted("guarded", {"n": N, "bias": None, "x": pa.Buffer(N, alignment=128, offset=4)})
    blocks = N // 256
    assert loaded(moved)["x"] - loaded(aligned)["x"] == 32 * blocks


@needs_tools
@pytest.mark.parametrize(("f", "d"), [(1.0, 2.0), (1, 2), (np.float32(1), np.float64(2))])
def test_floats_arrive_as_their_bits(f, d):
    threads = min(0x3F8, 0x400)  # the upper bits of 1.0f and of 2.0
    assert stored(predicted("bits", {"f": f, "d": d})) == 4 * threads


class Box(ctypes.Structure):
    _fields_ = (
        ("low", ctypes.c_int * 2),
        ("scale", ctypes.c_double),
        ("source", ctypes.c_void_p),
        ("count", ctypes.c_short),
    )


SCALAR = np.zeros(1, np.dtype([("low", "i4", 2), ("scale", "f8"), ("source", "u8"), ("count", "i2")]
                              , align=True))  # fmt: skip
SCALAR["low"], SCALAR["count"], SCALAR["source"] = (0, 1024), 512, 2**20


@needs_tools
@pytest.mark.parametrize(
    "box",
    [
        Box((0, 1024), 2.0, 2**20, 512),
        SCALAR[0],
        struct.pack("<iidQhxxxxxx", 0, 1024, 2.0, 2**20, 512),
        {0: 0, 4: 1024, 24: 512},
    ],
    ids=["ctypes", "numpy", "bytes", "offsets"],
)
def test_structures_by_value(box):
    found = predicted("boxed", {"box": box})
    assert stored(found) == 4 * 512
    assert list(loaded(found).values()) == [4.0 * 512]


@needs_tools
def test_structures_by_member():
    pytest.importorskip("elftools")
    box = {"low": [0, 1024], "scale": 2, "source": pa.Buffer(N), "count": 512}
    found = predicted("boxed", {"box": box})
    assert stored(found) == 4 * 512
    assert loaded(found) == {"box.source": 4.0 * 512}
    with pytest.raises(pa.LaunchError, match=r"no member 'cuont'; did you mean 'count'"):
        predicted("boxed", {"box": {"cuont": 3}})
    with pytest.raises(pa.LaunchError, match=r"needs its argument 'box.count'"):
        predicted("boxed", {"box": {"low": [0, 1024]}})


@needs_tools
def test_names_of_a_kernel_that_a_macro_defines(tmp_path):
    pytest.importorskip("elftools")
    path = tmp_path / "macro.cu"
    path.write_text(
        '#define KERNEL(NAME, T) extern "C" __global__ void NAME(T* y, T limit) \\\n'
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < limit) y[i] = i; }\n"
        "KERNEL(filled, int)\n"
    )
    launch = pa.Launch(256, 256, args={"limit": 512})
    p = pa.predict(pa.from_cuda(path, "filled"), launch, "A100-SXM4-40GB")
    assert stored(p) == 4 * 512


# What names nothing


@needs_tools
@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"n": 5, "bais": None}, "no parameter 'bais'; did you mean 'bias'"),
        ((1, 2, 3, 4, 5), "5 arguments for kernel 'guarded'; its parameters: x, bias, y, n"),
        ({"n": None}, "None is for pointers"),
        ({"n": pa.Buffer(4)}, "a buffer does not fit"),
        ({"n": 1.5}, "1.5 does not fit"),
        ({"n": 4, "bias": pa.Buffer(alias="z")}, "alias of 'z', which is no pointer"),
        ({"n": 4, "bias": pa.Buffer(alias="bias")}, "an alias of itself"),
        ({}, "needs its argument 'n'"),
    ],
)
def test_refused_arguments(args, said):
    with pytest.raises(pa.LaunchError, match=said):
        predicted("guarded", args)


@needs_tools
def test_refused_structures():
    with pytest.raises(pa.LaunchError, match="has 32 bytes; 33 do not fit"):
        predicted("boxed", {"box": bytes(33)})
    with pytest.raises(pa.LaunchError, match="has 32 bytes, none at 32"):
        predicted("boxed", {"box": {32: 1}})


@needs_tools
def test_a_trip_count_that_names_no_loop_is_an_error():
    place = "arguments.cu:31"
    p = predicted("counted", {"n": 4}, trip_counts={place: 3})
    assert not any("a loop is taken to run" in a.text for a in p.assumptions)
    with pytest.raises(pa.KernelError, match=f"names no loop; did you mean '{place}'"):
        predicted("counted", {"n": 4}, trip_counts={"arguments.cu:3": 3})


@needs_tools
def test_an_assumed_value_that_nothing_loads_is_an_error():
    with pytest.raises(pa.KernelError, match="no load has the name"):
        predicted("counted", {"n": 4}, assume={"nothing": "3"})


def test_an_assumed_value_that_decides_nothing_is_an_error(tmp_path):
    """A loaded value that is only added up decides no address, trip count or branch."""
    path = tmp_path / "copy.cu"
    path.write_text(
        'extern "C" __global__ void copy(const float* in, float* out)\n'
        "{ int i = blockIdx.x * 64 + threadIdx.x; out[i] = in[i] + 1.0f; }\n"
    )
    kernel = pa.from_cuda(path, assume={"in": "0"})
    with pytest.raises(pa.LaunchError, match="loaded from 'in' as an integer") as caught:
        pa.predict(kernel, pa.Launch(8, 64), "a100")
    assert isinstance(caught.value, pa.KernelError)  # as it was in version 0.2


UPPER_HALF = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry run(.param .align 8 .b8 f[256]) {
  .reg .u64 %rd<4>; .reg .u32 %r<4>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [f];
  ld.param.u32 %r1, [f+252];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r3, 0;
LOOP:
  st.global.u32 [%rd2], %r3;
  add.u32 %r3, %r3, 65536;
  setp.lt.u32 %p1, %r3, %r1;
  @%p1 bra LOOP;
  ret;
}
"""


@needs_tools
class TestUpperHalfOfAPointer:
    """Tests of code that reads only the upper half of a pointer, which nothing marks as a
    pointer."""

    def test_a_buffer_gives_it(self, tmp_path):
        (tmp_path / "k.ptx").write_text(UPPER_HALF)
        launch = pa.Launch(64, 256, {"f": {248: pa.Buffer(1 << 20, "float32")}})
        assert pa.predict(pa.from_ptx(tmp_path / "k.ptx", "run"), launch, "a100").time > 0

    def test_it_is_named_once_where_it_is_missing(self, tmp_path):
        (tmp_path / "k.ptx").write_text(UPPER_HALF)
        with pytest.raises(pa.LaunchError) as caught:
            pa.predict(pa.from_ptx(tmp_path / "k.ptx", "run"), pa.Launch(64, 256), "a100")
        said = str(caught.value)
        assert "'f (byte 252)' for the trip count of a loop; give it" in said
        assert "not given either" not in said
        assert "None" not in said


GATHER = """
struct Table { unsigned long long* f; unsigned long long slots; unsigned seed; bool copy; };
__global__ void gather(const unsigned* p, unsigned n, bool* out, const Table s) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { unsigned x = p[i] + s.seed; x ^= x >> 16; out[i] = s.f[x % s.slots] > 0; }
}
"""


@needs_tools
def test_a_member_that_nothing_reads_may_be_missing(tmp_path):
    """The code is executed on what is given; one byte without a value switched that off."""
    (tmp_path / "gather.cu").write_text(GATHER)
    kernel = pa.from_cuda(tmp_path / "gather.cu")
    table = {"f": pa.Buffer(1 << 14, "uint64", fill="constant 0"), "slots": 1 << 14, "seed": 7}
    keys = pa.Buffer(N, "uint32", fill="random(0, 4294967295)")

    def predicted(structure):
        launch = pa.Launch(N // 256, 256, {"n": N, "p": keys, "s": structure})
        return pa.predict(kernel, launch, "a100")

    whole, part = predicted({**table, "copy": 0}), predicted(table)
    assert part.confidence == whole.confidence != "guessed"
    assert part.time == whole.time
    without = predicted({name: value for name, value in table.items() if name != "seed"})
    assert any("8 elements apart" in str(a) for a in without.assumptions)

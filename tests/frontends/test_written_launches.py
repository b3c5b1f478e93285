"""Launches that sources write."""

import pytest

import perfassert as pa
from perfassert.cli.main import main
from perfassert.frontends.cuda.written_launches import (
    find_launches,
    launch_of,
    written_launches,
)


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("k<<<n, 128>>>(x);", (128,)),
        ("k<<<dim3(n, 2), dim3(32, 4u)>>>(x);", (32, 4)),
        ("dim3 b{8, 8, 4};\nk<<<g, b, 0, stream>>>(x);", (8, 8, 4)),
        ("dim3 b = dim3(8, 8);\nk<<<g, b>>>(x);", (8, 8)),
        ("#define A 1024\n#define B (A / 4)\nk<<<g, B>>>(x);", (256,)),
        ("constexpr int a = 64;\nconst int b = 2 * a;\nk<<<g, b>>>(x);", (128,)),
        ("int b = 64;\nk<<<g, b>>>(x);\nint b = 32;", (64,)),
        ("// k<<<g, 64>>>(x);\nns::k<<<(n + 7) / 8, 32>>>(x);", (32,)),
        ("k<<<g, threads>>>(x);", ()),
        ("k<<<g, b>>>(x);", ()),
        ("#define b b\nk<<<g, b>>>(x);", ()),
        ("#define b 8 / 0\nk<<<g, b>>>(x);", ()),
        ("k<<<g, min(n, 64)>>>(x);", ()),
        ("k<<<g, -64>>>(x);", ()),
        ("k<<<g, dim3(1, 2, 3, 4)>>>(x);", ()),
    ],
)
def test_blocks(text, block):
    (launch,) = find_launches(text, "f.cu")
    assert launch.kernel == "k"
    assert launch.block == block


@pytest.mark.parametrize(
    "text", ["", "<<<", "a << b; <<<<<<", "k<<<n>>>(x);", 'puts("k<<<n, 64>>>");', "1, 2>>> <<<"]
)
def test_what_is_no_launch(text):
    assert not [*find_launches(text, "f.cu")]


def test_long_texts_take_no_longer_than_their_length():
    text = "dim3 a(" * 20_000 + "x<" * 20_000 + "<<<" * 20_000
    assert not [*find_launches(text, "f.cu")]


TEMPLATES = """\
k<float, 64><<<n, 64>>>(x);
k<T, 128><<<n, 128>>>(x);
k<T, SIZE><<<n, SIZE>>>(x);
l<<<n, 32>>>(x);
l<<<n, 64>>>(x);
"""


@pytest.mark.parametrize(
    ("kernel", "block"),
    [
        ("k<float, 64>", (64,)),
        ("k<float, 128>", (128,)),
        ("ns::k<double, 128, 1>", (128,)),
        ("k<double, 64>", None),  # only a launch of unknown size fits
        ("k", None),
        ("l", None),  # two sizes
        ("m", None),
    ],
)
def test_instances_have_the_block_of_their_launch(kernel, block):
    launch = launch_of(kernel, [*find_launches(TEMPLATES, "f.cu")])
    assert (launch.block if launch else None) == block


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("int local = w; k<<<(n + local - 1) / local, local>>>();", "k<<<(n + w - 1) / w, w>>>"),
        ("int local = w / 8; k<<<n / local, local>>>();", "k<<<n / (w / 8), w / 8>>>"),
        ("int t = 64;\n  t = 32;\n k<<<n / t, t>>>();", "k<<<n / 32, 32>>>"),
        ("dim3 t(8); t = dim3(32, 8); k<<<g, t>>>();", "k<<<g, 32, 8>>>"),
        ("k<<<g, static_cast<unsigned int>(t)>>>();", "k<<<g, (t)>>>"),
        ("int t = 32; k<<<g, static_cast<unsigned>(t)>>>();", "k<<<g, 32>>>"),
        ("int t = (int)64; k<<<(unsigned int)n, (size_t) t>>>();", "k<<<n, 64>>>"),
        ("  ns::index_t t = 32;\n k<<<g, t>>>();", "k<<<g, 32>>>"),
        ("int i = i + 1; k<<<i, 2 * i>>>();", "k<<<i, 2 * i>>>"),
        ("int n = m, m = n; k<<<n, b.x>>>();", "k<<<n, b.x>>>"),
        ("if (t == 3) k<<<t, 32>>>();", "k<<<t, 32>>>"),
        ("auto f = &ns::k<T, 4>; f<<<g, 64>>>();", "k<T, 4><<<g, 64>>>"),
        ("auto f = k<4>;\n auto e = &l; f<<<g, 64>>>();", "k<4><<<g, 64>>>"),
        ("void (*f)(float*, int) = k; f<<<g, 64>>>();", "k<<<g, 64>>>"),
        ("auto f = c ? &k<1> : &k<2>; f<<<g, 64>>>();", "f<<<g, 64>>>"),
        ("int f = k; f<<<g, 64>>>();", "f<<<g, 64>>>"),
    ],
)
def test_names_stand_for_what_they_are_defined_as(text, expression):
    (launch,) = find_launches(text, "f.cu")
    assert launch.expression == expression


def test_sources_of_the_folder_are_read(tmp_path):
    (tmp_path / "kernel.cu").write_text("__global__ void k() {}")
    (tmp_path / "host.cpp").write_text("\n\nk<<<2, 96>>>();")
    (tmp_path / "folder.cu").mkdir()
    (launch,) = written_launches(tmp_path / "kernel.cu")
    assert str(launch) == "host.cpp:3: k<<<2, block of 96>>>"


def test_branches_of_a_definition_show_that_one_changes(tmp_path):
    (tmp_path / "kernel.cu").write_text("void f() { k<<<n / SIZE, SIZE>>>(); }")
    header = tmp_path / "size.h"
    header.write_text("#if OLD\n#define SIZE 128\n#else\n#define SIZE 1024\n#endif\n")
    (launch,) = written_launches(tmp_path / "kernel.cu")
    assert launch.expression == "k<<<n / (1024 | 128), 1024 | 128>>>"
    assert launch.block == ()


def test_a_link_out_of_the_confined_folder_is_not_read(tmp_path, monkeypatch):
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.cu").write_text("k<<<2, 96>>>();")
    (inside / "kernel.cu").write_text("k<<<2, 64>>>();")
    (inside / "link.cu").symlink_to(tmp_path / "secret.cu")
    monkeypatch.setenv("PERFASSERT_CONFINED", str(inside))
    assert [launch.block for launch in written_launches(inside / "kernel.cu")] == [(64,)]


SOURCE = """\
extern "C" __global__ void twice(float* out, const float* in, int rows, int columns) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < columns && y < rows) out[y * columns + x] = 2 * in[y * columns + x];
}
"""


@pytest.fixture
def source(tmp_path):
    (tmp_path / "twice.cu").write_text(SOURCE)
    (tmp_path / "host.cpp").write_text("void f() { dim3 b(64, 2);\ntwice<<<g, b>>>(o, i, r, c); }")
    try:
        pa.kernels(tmp_path / "twice.cu", "sm_80")
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))
    return tmp_path / "twice.cu"


def test_predict_and_init_propose_the_block(source, capsys):
    assert main(["predict", str(source), "--device", "a100"]) == 0
    words = capsys.readouterr().err
    assert "--domain 1024,1024 --block 64,2 --arg rows=1024 --arg columns=1024" in words
    written = source.parent / "twice.perf.toml"
    assert main(["init", str(source), "--device", "a100", "-o", str(written)]) == 0
    text = written.read_text()
    assert "# host.cpp:2: twice<<<g, block of 64, 2>>>\n" in text
    assert "launch = { domain = [1024, 1024], block = [64, 2], args = { rows = 1024" in text
    python = source.parent / "test_twice.py"
    assert main(["init", str(source), "--device", "a100", "-o", str(python)]) == 0
    assert "perf(kernel, domain=(1024, 1024), block=(64, 2), args=" in python.read_text()

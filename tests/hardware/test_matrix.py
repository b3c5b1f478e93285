"""Matrix variants: names, the derivation against published measurements of single instructions."""

import pytest

import perfassert as pa
from perfassert.errors import DeviceFileError
from perfassert.hardware.matrix import MatrixVariant

NAMES = ("tensor.m16n8k16.f16.f32", "tensor.m16n8k32.f16.f32.sp", "wgmma.m64n128k16.bf16.f32.ss",
         "wgmma.m64n64k32.e4m3.f32.sp.ss", "tcgen05.m256n256k16.f16.f32.ss.2cta")  # fmt: skip
# arXiv 2206.02874, table 3: one warp in a chain; multiply-adds per cycle and unit of 8 warps
A100 = {
    "tensor.m16n8k16.f16.f32": (24.7, 1004.2),
    "tensor.m16n8k8.f16.f32": (17.7, 974.1),
    "tensor.m16n8k16.f16.f16": (24.4, 996.6),
    "tensor.m16n8k8.f16.f16": (17.7, 1002.6),
    "tensor.m16n8k8.tf32.f32": (25.0, 492.4),
    "tensor.m16n8k32.s8.s32": (24.7, 1986.5),
    "tensor.m16n8k64.s4.s32": (26.1, 3660.8),
    "tensor.m16n8k256.b1.s32": (26.0, 14643.0),
}
# table 6: sparse; twice as many multiply-adds count as done
A100_SPARSE = {
    "tensor.m16n8k32.f16.f32.sp": (24.7, 1979.1),
    "tensor.m16n8k32.f16.f16.sp": (24.3, 2019.8),
    "tensor.m16n8k16.f16.f32.sp": (17.8, 1290.5),
    "tensor.m16n8k16.tf32.f32.sp": (24.9, 981.2),
    "tensor.m16n8k64.s8.s32.sp": (24.7, 3961.5),
}
# arXiv 2501.12084, tables 8 and 9, H800: cycles of one in a chain; A in shared memory, in registers
WGMMA = {256: (128, 128), 128: (64, 64), 64: (32, 32), 32: (24, 16), 16: (20, 13), 8: (18, 13)}
# Cycles of one in a chain, between two (None: not measured): DocumentSASS notes on sm_86, arXiv
# 2402.13499 (H800), an sm_120 SASS study; its QMMA of plain and of block-scaled 8-bit floats;
# kekzl/imp pull request 254 and mmapeak: IMMA on sm_120, by rate
SINGLE = {
    ("RTX-3090", "tensor.m16n8k16.f16.f16"): (24, None),
    ("RTX-3090", "tensor.m16n8k16.f16.f32"): (33.5, None),
    ("RTX-3090", "tensor.m8n8k4.f64.f64"): (38.5, None),
    ("H100-SXM5-80GB", "tensor.m16n8k16.f16.f32"): (24, None),
    ("H100-SXM5-80GB", "wgmma.m64n256k16.f16.f32.ss"): (None, 128),
    ("RTX-4090", "tensor.m16n8k16.f16.f32"): (None, 32),
    ("RTX-5090", "tensor.m16n8k16.f16.f32"): (35, None),
    ("RTX-5090", "tensor.m16n8k32.e4m3.f32"): (34.7, 32),
    ("RTX-5090", "tensor.m16n8k32.mxf8.f32"): (29, 16.1),
    ("RTX-5090", "tensor.m16n8k32.s8.s32"): (None, 16),
    ("RTX-5090", "tensor.m16n8k16.s8.s32"): (None, 16),
}
# SemiAnalysisAI/microbench-blackwell @9a068d8, B200: cycles until seen complete, between two
TCGEN05 = {
    "m128n256k16.bf16.f32.ss": (264, 128), "m128n128k16.bf16.f32.ss": (200, 64),
    "m128n112k16.bf16.f32.ss": (192, 60), "m128n64k16.bf16.f32.ss": (168, 48),
    "m64n256k16.bf16.f32.ss": (248, 128), "m64n64k16.bf16.f32.ss": (152, 32),
    "m128n256k16.bf16.f32": (232, 128), "m128n64k16.bf16.f32": (136, 32),
    "m64n96k16.bf16.f32": (152, 48), "m128n128k32.e4m3.f32": (168, 64),
    "m256n256k16.bf16.f32.ss.2cta": (298, 128), "m256n64k16.bf16.f32.2cta": (170, 32),
    "m128n256k16.bf16.f32.2cta": (210, 64), "m128n128k16.bf16.f32.2cta": (178, 32),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_says_all(name):
    assert MatrixVariant.from_name(name).name == name


@pytest.mark.parametrize("name", ["fp32", "tensor", "tensor.m16n8k16", "m16n8k16.f16.f32"])
def test_other_names_are_no_variants(name):
    assert MatrixVariant.from_name(name) is None


@pytest.mark.parametrize(("name", "measured"), [*A100.items(), *A100_SPARSE.items()])
def test_a100_latency_and_rate(name, measured):
    latency, rate = measured
    found, variant = pa.device("a100").operation(name), MatrixVariant.from_name(name)
    assert found.completion == pytest.approx(latency, rel=0.06)
    dense = variant.m * variant.n * variant.k
    documented = 1.13 if ".s4." in name or ".b1." in name else 1.06  # never seen in full
    assert 0.98 < 4 * dense / found.issue / rate < documented


@pytest.mark.parametrize(("device", "name"), SINGLE)
def test_single_instructions_take_as_long_as_measured(device, name):
    latency, interval = SINGLE[device, name]
    found = pa.device(device).operation(name)
    assert latency is None or found.completion == pytest.approx(latency, rel=0.02)
    assert interval is None or found.issue == pytest.approx(interval, rel=0.02)


@pytest.mark.parametrize("n", WGMMA)
def test_a_warp_group_takes_as_long_as_measured(n):
    shared, registers = WGMMA[n]
    name = f"wgmma.m64n{n}k16.f16.f32"
    device = pa.device("h100")
    assert device.operation(f"{name}.ss").issue == shared
    assert device.operation(name).issue == registers


@pytest.mark.parametrize("name", TCGEN05)
def test_one_thread_of_blackwell_starts_as_much_as_measured(name):
    latency, interval = TCGEN05[name]
    found = pa.device("b200").operation(f"tcgen05.{name}")
    assert found.issue == interval
    assert found.completion == pytest.approx(latency, rel=0.11)


@pytest.mark.parametrize("name", ["f16.f16", "f16.f32", "tf32.f32", "s8.s32"])
def test_hopper_reaches_two_thirds_without_warp_groups(name):
    rates = pa.device("h100").matrix
    assert rates[f"tensor.{name}"] / rates[f"wgmma.{name}"] == pytest.approx(0.654, abs=0.002)


def test_types_without_a_rate_count_as_the_listed_one():
    device = pa.device("a100")
    derived = device.derive_variant(MatrixVariant.from_name("tensor.m16n8k32.e4m3.f32"))
    assert derived.operation.issue == 2 * device.operation("tensor").issue
    assert "its rate is not in [matrix]" in derived.how


def test_a_listed_variant_is_not_derived():
    device = pa.device("a100")
    assert device.derive_variant(MatrixVariant.from_name("tensor.m16n8k16.f16.f32")) is None
    assert device.operation("tensor.m16n8k16.f16.f32").name == "tensor"


def test_a_file_without_rates_goes_by_the_multiply_adds():
    device = pa.device("a100")
    listed = {k: v for k, v in device.operations.items() if not k.startswith("tensor.")}
    bare = device.replace(matrix={}, operations=listed)
    assert bare.operation("tensor.m16n8k8.tf32.f32").issue == 4  # half of the multiply-adds


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('variant = "m16n8k16"', "operations.tensor.variant: 'm16n8k16' is not like"),
        ('[matrix]\n"f16" = 3', "matrix.f16: is not like 'tensor.f16.f32'"),
        ('[matrix]\n"tensor.f16.f32" = { value = 0, unit = "madd/cycle", source = "s", '
         'grade = "assumed" }', "matrix.tensor.f16.f32: must be above 0"),
    ],
)  # fmt: skip
def test_what_cannot_be_read(tmp_path, line, said):
    path = tmp_path / "mine.toml"
    path.write_text(
        'schema = 1\nname = "mine"\nextends = "A100-SXM4-40GB"\n[sources]\ns = "s"\n'
        f"[operations.tensor]\n{line}\n"
    )
    with pytest.raises(DeviceFileError, match=said.replace("[", r"\[")):
        pa.device(path)

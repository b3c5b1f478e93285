"""Operands in shared memory: what conflicts by swizzle, counted bank by bank."""

import pytest

import perfassert as pa
from perfassert.hardware.matrix import MatrixVariant
from perfassert.kernel.graph import Node
from perfassert.predictor.cost.matrix_units import MatrixUnits

ROWS, PIECE, BANKS, WORD = 8, 16, 32, 4  # of a core matrix: its rows, their bytes
SWIZZLES = (0, 32, 64, 128)


def swizzled(address, swizzle):
    """PTX ISA, "Swizzling modes": bits 4 to 6 ^= bits 7 to 9, as many as the mode has."""
    return address ^ (address >> 7 & swizzle // 16 - 1) << 4 if swizzle else address


def wavefronts(addresses):
    """The most words that any bank has to give, of rows of 16 bytes."""
    words = {(a + at) // WORD for a in addresses for at in range(0, PIECE, WORD)}
    banks = [word % BANKS for word in words]
    return max(map(banks.count, banks))


def core_matrix(swizzle, column):
    """Return the addresses of a core matrix's rows, which are ``swizzle`` bytes apart, or
    adjacent."""
    pitch = swizzle or PIECE
    return [swizzled(row * pitch + column * PIECE, swizzle) for row in range(ROWS)]


@pytest.mark.parametrize("swizzle", SWIZZLES)
def test_no_descriptor_names_a_layout_with_conflicts(swizzle):
    for column in range(max(1, swizzle // PIECE)):
        assert wavefronts(core_matrix(swizzle, column)) == 1


@pytest.mark.parametrize(
    "name",
    ["wgmma.m64n256k16.f16.f32.ss", "wgmma.m64n128k32.e4m3.f32", "tcgen05.m128n64k16.f16.f32.ss"],
)
def test_operands_take_a_wavefront_for_each_core_matrix(name):
    device, variant = pa.device("b200"), MatrixVariant.from_name(name)
    matrices = variant.shared_bytes / (ROWS * PIECE)
    warps = 4 if variant.unit == "wgmma" else 1
    node = Node(0, name, "", (), produces=False)
    made = MatrixUnits([node.operation], device, "shared memory").add_product(node)
    assert dict(made.demands)["shared memory"] == pytest.approx(matrices / warps, abs=1 / 16)


LDMATRIX = """
extern "C" __global__ void rows(unsigned* out) {
    __shared__ __align__(1024) unsigned char tile[8192];
    unsigned lane = threadIdx.x % 32, r[4];
    unsigned at = lane % 8 * PITCH + lane / 8 % (PITCH / 16) * 16;
    at += lane / 8 * 16 / PITCH * 8 * PITCH;
    if (SWIZZLE) at ^= (at >> 7 & (SWIZZLE / 16 - 1)) << 4;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(tile) + at));
    out[threadIdx.x] = r[0] + r[1] + r[2] + r[3];
}
"""


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("swizzle", [0, 1])
@pytest.mark.parametrize("pitch", [32, 64, 128])
def test_what_a_warp_reads_itself_counts_by_its_addresses(tmp_path, pitch, swizzle):
    """Four core matrices out of rows as wide as a swizzle: with it, and without."""
    pytest.importorskip("nvidia.cu13")
    (file := tmp_path / "rows.cu").write_text(LDMATRIX)
    kernel = pa.from_cuda(file, defines={"PITCH": pitch, "SWIZZLE": pitch * swizzle})
    found = pa.predict(kernel, pa.Launch(1, 32), "h100")
    expected = 0
    for matrix in range(4):
        column, below = matrix % (pitch // PIECE), matrix * PIECE // pitch * ROWS
        places = [(below + row) * pitch + column * PIECE for row in range(ROWS)]
        expected += wavefronts([swizzled(a, pitch * swizzle) for a in places])
    assert expected == (4 if swizzle else 4 * pitch // PIECE)
    assert float(found.volumes.shared_wavefronts.total) == expected

"""The real driver against a stand-in for NVIDIA's bindings, and the kernels against NVRTC."""

import ctypes
import re
import sys
from enum import IntEnum
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from perfassert.cli.main import main
from perfassert.frontends.toolchain import tools
from perfassert.frontends.toolchain.build import Source, build
from perfassert.lab.calibration import cuda_driver, plan
from perfassert.lab.calibration.cuda_driver import CudaDriver, compile_program, summarize_timings
from perfassert.lab.calibration.driver import CalibrationError, Shot

pytestmark = pytest.mark.exhaustive(one_in=8)

PROGRAMS = ["memory", "launch", "chain:barrier", *(f"chain:{name}" for name in plan.CHAINS)]
ARCHITECTURES = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]
WHOLE = ("sm_75", "sm_90", "sm_120")  # of the others, what depends on the architecture
VARYING = ("memory", "launch", "chain:tensor", "chain:tensor_fp64", "chain:fp16")
toolchain = pytest.mark.skipif(tools.find("nvrtc") is None, reason="NVRTC is missing")
disassembler = pytest.mark.skipif(tools.find("nvdisasm") is None, reason="nvdisasm is missing")
ATTRIBUTES = {
    "MULTIPROCESSOR_COUNT": 108, "WARP_SIZE": 32, "CLOCK_RATE": 1_410_000,
    "COMPUTE_CAPABILITY_MAJOR": 8, "COMPUTE_CAPABILITY_MINOR": 0, "MAX_THREADS_PER_BLOCK": 1024,
    "MAX_BLOCK_DIM_Z": 64, "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
    "MAX_BLOCKS_PER_MULTIPROCESSOR": 32, "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 167936, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 166912,
    "RESERVED_SHARED_MEMORY_PER_BLOCK": 1024, "L2_CACHE_SIZE": 41943040,
}  # fmt: skip


class Status(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_UNKNOWN = 999
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46


class Bindings(ModuleType):
    """The functions of ``cuda.bindings.driver`` that are called, with host memory."""

    CUdevice_attribute = SimpleNamespace(**{f"CU_DEVICE_ATTRIBUTE_{k}": k for k in ATTRIBUTES})
    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)

    def __init__(self, fails=(), devices=1):
        super().__init__("cuda.bindings.driver")
        self.fails = dict(fails)
        self.devices = devices
        self.memory = {}
        self.launches = []
        self.log = []

    def __getattr__(self, name):
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*arguments):
            self.log.append(name)
            if name in self.fails:
                return (self.fails[name], None)
            result = getattr(self, f"do_{name}", lambda *_: None)(*arguments)
            return (Status.CUDA_SUCCESS,) if result is None else (Status.CUDA_SUCCESS, result)

        return call

    def do_cuDeviceGetCount(self):  # noqa: N802
        return self.devices

    def do_cuDeviceGet(self, index):  # noqa: N802
        return index

    def do_cuDevicePrimaryCtxRetain(self, device):  # noqa: N802
        return "context"

    def do_cuDeviceGetAttribute(self, key, device):  # noqa: N802
        return ATTRIBUTES[key]

    def do_cuDriverGetVersion(self):  # noqa: N802
        return 13000

    def do_cuDeviceGetName(self, length, device):  # noqa: N802
        return b"NVIDIA A100-SXM4-40GB" + b"\0" * 10

    def do_cuDeviceGetUuid(self, device):  # noqa: N802
        return SimpleNamespace(bytes=b"\1" * 16)

    def do_cuDeviceGetPCIBusId(self, length, device):  # noqa: N802
        return b"0000:01:00.0\0\0"

    def do_cuMemGetInfo(self):  # noqa: N802
        return (10_000, 20_000)

    def do_cuEventCreate(self, flags):  # noqa: N802
        return object()

    def do_cuEventElapsedTime(self, start, stop):  # noqa: N802
        return 1.5

    def do_cuMemAlloc(self, size):  # noqa: N802
        block = ctypes.create_string_buffer(size)
        self.memory[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    def do_cuMemFree(self, address):  # noqa: N802
        del self.memory[address]

    def do_cuMemcpyDtoH(self, host, address, size):  # noqa: N802
        ctypes.memmove(host, address, size)

    def do_cuModuleLoadData(self, image):  # noqa: N802
        assert image == b"cubin"
        return "module"

    def do_cuModuleGetFunction(self, module, name):  # noqa: N802
        return name.decode()

    def do_cuLaunchKernel(self, function, *rest):  # noqa: N802
        blocks, threads, (values, kinds) = rest[0], rest[3], rest[8]
        assert len(values) == len(kinds) == 5
        self.launches.append((function, blocks, threads, rest[6], values[2:]))
        warps = blocks * -(-threads // 32)
        records = [(1000 + w, 3000 + w, 1000, w % 2) for w in range(warps)]
        ctypes.memmove(values[0], np.array(records, dtype=np.int64).tobytes(), 32 * warps)


@pytest.fixture
def bound(monkeypatch):
    """``bound(…)``: stand-ins for the bindings, in place."""

    def bind(**how):
        made = Bindings(**how)
        package = ModuleType("cuda")
        package.bindings = ModuleType("cuda.bindings")
        package.bindings.driver = made
        package.bindings.__path__ = []
        monkeypatch.setitem(sys.modules, "cuda", package)
        monkeypatch.setitem(sys.modules, "cuda.bindings", package.bindings)
        monkeypatch.setitem(sys.modules, "cuda.bindings.driver", made)
        monkeypatch.setattr(cuda_driver, "compile_program", lambda program, arch: b"cubin")
        return made

    return bind


def test_properties(bound):
    bound()
    gpu = CudaDriver(0).properties()
    assert (gpu.name, gpu.arch, gpu.driver) == ("NVIDIA A100-SXM4-40GB", "sm_80", "13.0")
    assert (gpu.compute_units, gpu.l2_bytes, gpu.free_bytes) == (108, 40 * 2**20, 8000)
    assert gpu.clock_hz == 1.41e9
    assert gpu.max_warps_per_unit == 64


def test_a_shot(bound):
    bindings = bound()
    gpu = CudaDriver(0)
    fill = Shot("memory", "write", 1, 256, 64, 1, buffer_bytes=64, records=False)
    sample = gpu.run(Shot("chain:fp32", "chain", 2, 64, 4096, 7, 9, before=(fill,)))
    assert bindings.launches == [
        ("write", 1, 256, 0, (64, 1, 0)),
        ("chain", 2, 64, 0, (4096, 7, 9)),
    ]
    assert sample.seconds == 0.0015
    assert sample.cycles == 2002  # from the first start of a unit to its last stop
    assert sample.clock_hz == 2e9
    bindings.launches.clear()
    sample = gpu.run(Shot("launch", "empty", 1, 32, 0, count=3, shared_bytes=50_000, records=False))
    assert [name for name, *_ in bindings.launches] == ["empty"] * 3
    assert "cuFuncSetAttribute" in bindings.log
    assert (sample.cycles, sample.clock_hz) == (0, 0)
    gpu.close()
    gpu.close()
    assert not bindings.memory
    assert bindings.log.count("cuDevicePrimaryCtxRelease") == 1


def test_other_processes_and_the_clock(bound, monkeypatch):
    bound()
    gpu = CudaDriver(0)
    assert "unknown" in gpu.warnings()[0]
    assert gpu.clock_hz() == 0
    nvml = ModuleType("cuda.bindings.nvml")
    nvml.init_v2 = lambda: None
    nvml.device_get_handle_by_pci_bus_id_v2 = lambda place: place
    nvml.device_get_clock_info = lambda handle, kind: {1: 1410}[kind]  # NVML_CLOCK_SM
    nvml.device_get_compute_running_processes_v3 = lambda handle: [1, 2, 3]
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvml", nvml)
    assert gpu.warnings()[0].startswith("2 other processes use the GPU")
    assert gpu.clock_hz() == 1.41e9
    nvml.device_get_compute_running_processes_v3 = lambda handle: [1]
    assert gpu.warnings() == []


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"fails": {"cuInit": Status.CUDA_ERROR_NO_DEVICE}}, "there is no NVIDIA GPU; "),
        ({"fails": {"cuInit": Status.CUDA_ERROR_UNKNOWN}}, "cuInit failed (CUDA_ERROR_UNKNOWN)"),
        ({"devices": 0}, "there is no GPU 0: this machine has 0"),
        (
            {"fails": {"cuDevicePrimaryCtxRetain": Status.CUDA_ERROR_DEVICE_UNAVAILABLE}},
            "in exclusive use by another process",
        ),
    ],
)
def test_without_a_usable_gpu(how, message, bound, tmp_path, capsys):
    bound(**how)
    assert main(["calibrate", "-o", str(tmp_path / "a.toml")]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_without_a_driver(bound, tmp_path, capsys):
    def missing(flags):
        raise RuntimeError("libcuda.so is not found.\nmore")

    bound().cuInit = missing
    assert main(["calibrate", "-o", str(tmp_path / "a.toml")]) == 2
    assert "driver is not installed or cannot be loaded: libcuda.so is not found;" in (
        capsys.readouterr().err
    )


def test_without_the_extra(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "cuda", None)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    assert main(["calibrate", "-o", str(tmp_path / "a.toml")]) == 2
    assert 'pip install "perfassert[gpu]"' in capsys.readouterr().err


def test_the_unit_with_most_warps_counts():
    records = [(0, 100, 50, 7), (10, 130, 60, 7), (5, 95, 45, 8), (1000, 1500, 250, 9),
               (1100, 1600, 250, 9)]  # fmt: skip
    assert summarize_timings(records) == ((130 + 600) / 2, 2e9)


@toolchain
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.exhaustive(one_in=4)
def test_kernels_compile(arch):
    for program in PROGRAMS if arch in WHOLE else VARYING:
        since = plan.CHAINS[program[6:]].since if program[6:] in plan.CHAINS else 0
        if int(arch[3:]) >= since:
            assert compile_program(program, arch).startswith(b"\x7fELF"), program


def test_old_gpus(monkeypatch):
    with pytest.raises(CalibrationError, match="needs sm_70"):
        compile_program("memory", "sm_61")
    monkeypatch.setattr(tools, "find_older", lambda name, version: None)
    with pytest.raises(CalibrationError, match="no installed ptxas knows sm_70"):
        compile_program("memory", "sm_70")


OPCODES = {
    "int32": ("LOP3",), "imad": ("IMAD",), "fp32": ("FFMA",), "fp64": ("DFMA",),
    "fp16": ("HFMA2",), "sfu": ("MUFU",), "convert": ("F2I",), "compare": ("ISETP", "SEL"),
    "shuffle": ("SHFL",), "tensor": ("HMMA",), "tensor_fp64": ("DMMA",),
    "shared_load": ("LDS",), "shared_store": ("STS", "LDS"), "atomic_shared": ("ATOMS",),
    "atomic_global": ("ATOMG",), "constant_load": ("LDC",),
}  # fmt: skip


@toolchain
@disassembler
@pytest.mark.parametrize("arch", ["sm_80", "sm_120"])
@pytest.mark.parametrize("name", OPCODES)
@pytest.mark.exhaustive(one_in=12)
def test_chains_are_of_their_class(name, arch):
    """256 links, each of the instructions that its class stands for."""
    path = cuda_driver.KERNELS / "chain.cu"
    listing = build(Source(path, "cuda", "chain", {f"OP_{name}": 1}), arch).listing
    for pattern in OPCODES[name]:
        found = re.findall(rf"\*/\s+(?:@!?U?P\w+ )?(?:{pattern})[A-Z0-9]*[ .]", listing)
        assert 256 <= len(found) <= 270, (pattern, len(found))

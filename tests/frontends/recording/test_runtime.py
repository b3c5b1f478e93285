"""The ways into the runtime: linked in, shared, driver API, processes; and its own build."""

import glob
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from host_programs import need_host_compiler

import perfassert as pa
from perfassert.frontends.recording import stand_in
from perfassert.frontends.recording.device import attributes
from perfassert.frontends.toolchain import tools

pytestmark = pytest.mark.exhaustive(one_in=3)

LOOP = Path(__file__).parents[3] / "examples/recording/loop.cu"
DRIVER = r"""
#include <dlfcn.h>
#include <cstdint>
#include <cstdlib>
#include <cstring>

const char* ptx = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .entry store(.param .u64 out, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra DONE;
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r2;
DONE:
    ret;
}
)";

template <class... Types> int call(void* library, const char* name, Types... arguments) {
    auto* function = reinterpret_cast<int (*)(Types...)>(dlsym(library, name));
    return function == nullptr ? -1 : function(arguments...);
}

int main(int count, char**) {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == nullptr) return 10;
    void *context, *module, *function, *out;
    int major = 0;
    call(driver, "cuInit", 0u);
    call(driver, "cuCtxCreate_v2", &context, 0u, 0);
    call(driver, "cuDeviceGetAttribute", &major, 75, 0);
    if (major != 8) return 11;
    if (call(driver, "cuModuleLoadData", &module, (const void*)ptx)) return 12;
    if (call(driver, "cuModuleGetFunction", &function, module, "store")) return 13;
    if (call(driver, "cuModuleGetFunction", &function, module, "missing") == 0) return 14;
    call(driver, "cuModuleGetFunction", &function, module, "store");
    call(driver, "cuMemAlloc_v2", &out, (size_t)1024);
    unsigned n = 200;
    void* arguments[] = {&out, &n};
    void *stream = nullptr, **none = nullptr;
    if (count == 1)
        return call(driver, "cuLaunchKernel", function, 2u, 1u, 1u, 128u, 1u, 1u, 0u, stream,
                    (void**)arguments, none);
    char packed[12];
    memcpy(packed, &out, 8);
    memcpy(packed + 8, &n, 4);
    size_t size = sizeof packed;
    void* extra[] = {(void*)1, packed, (void*)2, &size, nullptr};
    return call(driver, "cuLaunchKernel", function, 2u, 1u, 1u, 128u, 1u, 1u, 0u, stream, none,
                (void**)extra);
}
"""


@pytest.fixture(scope="session")
def driver_program(tmp_path_factory):
    need_host_compiler()
    if tools.find("ptxas") is None:
        pytest.skip("ptxas is not installed")
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.cpp").write_text(DRIVER)
    program = folder / "driver"
    command = ["g++", "-o", str(program), str(folder / "driver.cpp"), "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    return program


@pytest.mark.parametrize("packed", [False, True])
def test_modules_of_the_driver(driver_program, recorded, packed):
    recording = recorded(driver_program, *(["packed"] if packed else []))
    assert recording.status == 0
    (launch,) = recording.findings.launches.values()
    assert (launch.grid, launch.block) == ((2, 1, 1), (128, 1, 1))
    assert launch.module.suffix == ".ptx"
    pointer, count = launch.args.values()
    assert (pointer.size, count) == (1024, 200)


def test_a_shared_runtime(build, recorded):
    """Whatever the folder that the linker took it from."""
    found = [p for d in tools.include_dirs() for p in glob.glob(f"{d}/../lib*/libcudart.so.1*")]
    if not found:
        pytest.skip("there is no shared CUDA runtime to link with")
    options = ("-arch=sm_80", "-lineinfo", "-cudart", "none", "-Xlinker", found[0])
    program = build("loop.cu", LOOP.read_text(), *options)
    (launch,) = recorded(program, 3).findings.launches.values()
    assert launch.count == 3
    assert list(launch.args) == ["in", "out", "n"]


def test_names_without_lines(build, recorded):
    program = build("loop.cu", LOOP.read_text(), "-arch=sm_80")
    (launch,) = recorded(program, 1).findings.launches.values()
    assert list(launch.args) == ["arg0", "arg1", "arg2"]
    (launch,) = recorded(program, 1, sources=(LOOP.read_text(),)).findings.launches.values()
    assert list(launch.args) == ["in", "out", "n"]


def test_a_stripped_program(build, recorded, tmp_path):
    if shutil.which("strip") is None:
        pytest.skip("there is no strip")
    stripped = tmp_path / "stripped"
    shutil.copy(build("loop.cu"), stripped)
    subprocess.run(["strip", str(stripped)], check=True)
    with pytest.raises(pa.RecordError, match="symbols are stripped; link with -cudart shared"):
        recorded(stripped, 3)


def test_programs_that_start_programs(build, recorded):
    program = build("loop.cu")
    script = f"{program} 2 & {program} 3; wait"
    recording = recorded("/bin/sh", "-c", script)
    assert recording.findings.processes == 2
    (launch,) = recording.findings.launches.values()
    assert launch.count == 5


def test_the_device_that_programs_see(build, recorded):
    text = """
    #include <cstdlib>
    #include <cstring>
    __global__ void k() {}
    int main(int, char** wanted) {
        cudaDeviceProp device;
        cudaGetDeviceProperties(&device, 0);
        int units = 0, per_block = 0, resident = 0;
        cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, 0);
        cudaDeviceGetAttribute(&per_block, cudaDevAttrMaxThreadsPerBlock, 0);
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, k, 256, 0);
        cudaFuncAttributes attributes;
        cudaFuncGetAttributes(&attributes, k);
        k<<<1, 1>>>();
        bool right = units == std::atoi(wanted[1]) && device.multiProcessorCount == units;
        right &= device.major == std::atoi(wanted[2]) && device.minor == std::atoi(wanted[3]);
        right &= device.maxThreadsPerMultiProcessor == std::atoi(wanted[4]);
        right &= device.sharedMemPerBlockOptin == std::atoi(wanted[5]);
        right &= device.l2CacheSize == std::atoi(wanted[6]) && device.warpSize == 32;
        right &= device.maxGridSize[1] == 65535 && device.maxThreadsPerBlock == per_block;
        right &= resident == std::atoi(wanted[4]) / 256 && attributes.binaryVersion == 80;
        return right && std::strstr(device.name, "A") ? 0 : 1;
    }"""
    for gpu in ("A100-SXM4-40GB", "A40"):
        d = pa.device(gpu)
        number = int(d.arch.removeprefix("sm_"))
        facts = (d.compute_units, number // 10, number % 10, d.max_threads_per_unit,
                 d.shared_bytes_per_block, d.l2_bytes)  # fmt: skip
        assert recorded(build("device.cu", text), *facts, gpu=gpu).status == 0
    assert dict(attributes(pa.device("A40")))[16] == pa.device("A40").compute_units


def test_the_runtime_is_compiled_where_the_wheel_has_none(monkeypatch, tmp_path):
    if not sys.platform.startswith("linux") or shutil.which("g++") is None:
        pytest.skip("there is no host compiler")
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path))
    made = stand_in._compile_runtime()
    assert made.read_bytes().startswith(b"\x7fELF")
    before = made.stat().st_mtime_ns
    assert stand_in._compile_runtime() == made
    assert made.stat().st_mtime_ns == before
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "other"))
    with pytest.raises(pa.ToolchainMissing, match="apt-get install g"):
        stand_in._compile_runtime()

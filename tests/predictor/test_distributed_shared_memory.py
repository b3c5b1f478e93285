"""Shared memory of other blocks of a cluster: its latency, its network, what is not known."""

import pytest

import perfassert as pa

TRIPS = 200
MAP = """
    unsigned rank, there, mine = (unsigned)__cvta_generic_to_shared(tile);
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(mine), "r"(rank ^ 1));
    asm volatile("barrier.cluster.arrive.aligned;\\nbarrier.cluster.wait.aligned;");
"""
CHASE = """
extern "C" __global__ void chase(unsigned* out, unsigned n) {
    __shared__ unsigned tile[1024];
    tile[threadIdx.x] = threadIdx.x * 4;
    MAP
    unsigned at = threadIdx.x * 4;
    #pragma unroll 1
    for (unsigned i = 0; i < n; i++)
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(at) : "r"(there + at));
    out[threadIdx.x] = at;
}
"""
STREAM = """
extern "C" __global__ void stream(unsigned* out, unsigned n) {
    __shared__ unsigned tile[1024];
    tile[threadIdx.x] = threadIdx.x * 4;
    MAP
    unsigned v[8], sum = 0;
    #pragma unroll 1
    for (unsigned i = 0; i < n; i++) {
        #pragma unroll
        for (int j = 0; j < 8; j++)
            asm volatile("ld.volatile.shared::cluster.u32 %0, [%1];"
                         : "=r"(v[j]) : "r"(there + threadIdx.x * 4));
        for (int j = 0; j < 8; j++) sum += v[j];
    }
    out[threadIdx.x] = sum;
}
"""


def predicted(folder, text, threads, device, trips=TRIPS):
    pytest.importorskip("nvidia.cu13")
    (file := folder / "mapped.cu").write_text(text.replace("MAP", MAP))
    launch = pa.Launch(device.compute_units // 2 * 2, threads, args={"n": trips}, cluster=2)
    return pa.predict(pa.from_cuda(file), launch, device)


def per_trip(folder, text, threads, device):
    """Cycles of an iteration; what comes before and after the loop falls out."""
    few, many = (predicted(folder, text, threads, device, n) for n in (TRIPS, 3 * TRIPS))
    return (float(many.cycles) - float(few.cycles)) / (2 * TRIPS)


@pytest.mark.parametrize("name", ["h100", "b200"])
def test_a_chase_takes_the_latency_of_the_cluster(tmp_path, name):
    """Beside the load an addition, and moves that make its address, are on the path."""
    device = pa.device(name)
    cycles = per_trip(tmp_path, CHASE, 32, device)
    assert device.cluster_latency < cycles < device.cluster_latency + 25
    near = device.replace(cluster_latency=device.cluster_latency - 100)
    assert per_trip(tmp_path, CHASE, 32, near) == pytest.approx(cycles - 100, abs=2)


def test_many_warps_share_the_network_of_their_unit(tmp_path):
    device = pa.device("h100")
    threads = 1024
    wanted = 8 * threads * 4 / device.cluster_bytes_per_cycle
    assert per_trip(tmp_path, STREAM, threads, device) == pytest.approx(wanted, rel=0.02)
    wide = device.replace(cluster_bytes_per_cycle=2 * device.cluster_bytes_per_cycle)
    assert per_trip(tmp_path, STREAM, threads, wide) == pytest.approx(wanted / 2, rel=0.02)
    found = predicted(tmp_path, STREAM, threads, device)
    assert found.limiter == "shared"
    assert not any("cluster_latency" in a.text for a in found.assumptions)


def test_what_is_not_known_is_said(tmp_path):
    device = pa.device("h100").replace(cluster_latency=0.0)
    found = predicted(tmp_path, CHASE, 32, device)
    assert any("has no cluster_latency" in a.text for a in found.assumptions)


@pytest.mark.parametrize("device", ["a100", "rtx-4090"])
def test_devices_without_clusters_refuse_them(device):
    field = pa.Field("a", shape=1 << 20)
    fill = pa.Kernel.from_accesses("fill", [field], stores=["a[x]"])
    with pytest.raises(
        pa.LaunchError, match=r"clusters of blocks are launched from sm_90 on; .* is sm_8"
    ):
        pa.predict(fill, pa.Launch(1 << 12, 256, cluster=2), device)
    assert pa.predict(fill, pa.Launch(1 << 12, 256, cluster=2), "rtx-5090").time > 0

"""Tests of the memory space of operation classes, of devices and of users."""

import pytest

import perfassert as pa
from perfassert.engines.advisor.code import Code
from perfassert.kernel.graph import Node
from perfassert.kernel.roles import is_outside_sm, node_space, space_of
from perfassert.predictor.diagnose.diagnose import latency_bounds

FAR = {"global_load", "global_store", "atomic_global", "texture_load", "local_load",
       "local_store", "async_copy"}  # fmt: skip


def test_what_lies_behind_the_l1():
    device = pa.device("a100")
    assert {name for name in device.operations if is_outside_sm(space_of(name))} == FAR
    bounds = latency_bounds(Code((), {}), device)
    assert all(bounds[name] > device.dram_latency for name in FAR)
    assert bounds["atomic_shared"] < device.dram_latency


@pytest.mark.parametrize(
    ("operation", "space"),
    [("atomic_global", "global"), ("atomic_shared", "shared"),
     ("async_copy", "global"), ("texture_load", "global"), ("constant_load", "constant"),
     ("global", "global"), ("global_mem", "global"), ("texture_2d", "global"),
     ("local_load 300", "local"), ("fp32", None), ("globally", None), ("", None)],
)  # fmt: skip
def test_by_class(operation, space):
    assert space_of(operation) == space
    assert node_space(Node(0, operation, "", ())) == space


def test_a_node_says_it_itself():
    assert node_space(Node(0, "fp32", "", (), space="shared")) == "shared"
    assert node_space(Node(0, "mem", "", (), access="A[i]")) == "global"


@pytest.mark.parametrize(
    ("operation", "reason"),
    [("atomic_global", "memory_dependency"), ("async_copy", "memory_dependency"),
     ("atomic_shared", "shared_dependency")],
)  # fmt: skip
def test_what_atomics_are_waited_for_as(operation, reason):
    g = pa.InstructionGraph.builder()
    with g.loop(20) as body:
        g.op("fp32", g.op(operation, body.carried("use")), name="use")
    times = {operation: pa.Latency(4, 500, "atomics"), "fp32": pa.Latency(2, 4, "fma")}
    kernel = pa.Kernel.from_graph("atomics", g.build(), latencies=times, registers=20)
    stalls = pa.predict(kernel, pa.Launch(1000, 256), "a100").stalls
    assert max(stalls, key=stalls.get) == reason

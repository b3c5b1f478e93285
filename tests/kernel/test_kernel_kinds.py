"""The four kinds of kernel, and what each of them says."""

from pathlib import Path

import pytest

import perfassert as pa
from perfassert.kernel.description import AccessKernel, BoundKernel, CompiledKernel, GraphKernel

LISTING = Path(__file__).parents[1] / "frontends" / "fixtures" / "saxpy.sass"
N = 1 << 12
LAUNCH = pa.Launch(N // 256, 256, (N, 2, pa.Buffer((N,), "float32"), pa.Buffer((N,), "float32")))


def by_accesses():
    return pa.Kernel.from_accesses("k", [pa.Field("a", shape=(N,))], stores=["a[x]"])


def by_graph():
    g = pa.InstructionGraph.builder()
    g.op("fp32")
    return pa.Kernel.from_graph("k", g.build())


def compiled():
    return pa.from_cubin(LISTING)


def bound():
    return compiled().bind(LAUNCH, "sm_80", 32)[0]


KINDS = [(by_accesses, AccessKernel), (by_graph, GraphKernel), (compiled, CompiledKernel),
         (bound, BoundKernel)]  # fmt: skip


@pytest.mark.parametrize(("make", "kind"), KINDS, ids=lambda one: one.__name__)
def test_each_is_a_kernel_of_one_kind(make, kind):
    kernel = make()
    assert isinstance(kernel, pa.Kernel)
    assert [k for _, k in KINDS if isinstance(kernel, k)] == [kind]
    described, _ = kernel.bind(LAUNCH, "sm_80", 32)
    assert (described is kernel) == (kind is not CompiledKernel)
    assert isinstance(described, (AccessKernel, GraphKernel, BoundKernel))


def test_there_is_no_kernel_of_no_kind():
    with pytest.raises(TypeError, match="abstract"):
        pa.Kernel(name="k")


def test_a_bound_kernel_is_predicted_like_the_code_that_it_came_from():
    times = [pa.predict(k, LAUNCH, "a100").time for k in (bound(), compiled())]
    assert times[0] == times[1]


@pytest.mark.parametrize("make", [by_graph, compiled])
def test_only_expressions_leave_parallelism_open(make):
    prediction = pa.predict(make(), LAUNCH, "a100")
    with pytest.raises(pa.KernelError, match="ilp: only address expressions"):
        pa.whatif(prediction, ilp=4)

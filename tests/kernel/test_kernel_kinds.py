"""The four classes of kernel, their three kinds, and what each of them says."""

from dataclasses import replace
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.baseline.entry import entry_of
from perfassert.kernel.description import AccessKernel, BoundKernel, CompiledKernel, GraphKernel
from perfassert.kernel_kind import KernelKind

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


VALUES = [(by_accesses, "described"), (by_graph, "graph"), (compiled, "compiled"),
          (bound, "compiled")]  # fmt: skip
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


@pytest.mark.parametrize(("make", "kind"), VALUES, ids=lambda one: getattr(one, "__name__", one))
class TestKind:
    def test_a_prediction_has_the_kind_of_its_kernel(self, make, kind):
        prediction = pa.predict(make(), LAUNCH, "a100")
        assert make().kind == prediction.kernel_kind == kind
        assert prediction.to_dict()["kernel_kind"] == kind

    def test_data_of_earlier_versions_does_not_state_it(self, make, kind):
        prediction = pa.predict(make(), LAUNCH, "a100")
        data = prediction.to_dict()
        del data["kernel_kind"]
        assert pa.Prediction.from_dict(data) == prediction

    def test_baselines_do_not_state_it(self, make, kind):
        entry = entry_of(pa.predict(make(), LAUNCH, "a100"))
        assert "kernel_kind" not in entry
        is_compiled = KernelKind.of_values("spill_bytes" in entry) is KernelKind.COMPILED
        assert is_compiled == (kind == "compiled")


def test_an_unknown_kind_is_damaged_data():
    data = pa.predict(by_graph(), LAUNCH, "a100").to_dict() | {"kernel_kind": "drawn"}
    with pytest.raises(pa.PredictionDataError, match="kernel_kind must be one of compiled, desc"):
        pa.Prediction.from_dict(data)


@pytest.mark.parametrize("spills", [None, -4, 1.5])
def test_compiled_code_says_what_it_spills(spills):
    with pytest.raises(pa.KernelError, match="spill_bytes must be"):
        replace(bound(), spill_bytes=spills)

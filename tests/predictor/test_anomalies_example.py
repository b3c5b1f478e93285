"""``examples/anomalies.py`` on two kernels, quickly."""

import anomalies
import pytest
from star3d25pt import star3d25pt

import perfassert as pa

N = 1 << 20


def star():
    return star3d25pt((128, 64, 64)), pa.Launch.cover((128, 64, 64), (32, 4, 4))


def copy():
    fields = [pa.Field("a", shape=(N,)), pa.Field("b", shape=(N,))]
    return pa.Kernel.from_accesses("copy", fields, ["a[x]"], ["b[x]"]), pa.Launch.cover(N, 256)


def test_two_kernels(monkeypatch, capsys):
    monkeypatch.setattr(anomalies, "CASES", {"star": star, "copy": copy})
    anomalies.main(["star", "copy"])
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["kernel", "time", "largest", "rise", "with", "a", "better"]
    assert [line.split()[0] for line in lines] == ["star", "copy"]
    for line in lines:
        *_, rise, value = line.split()
        assert value in (*anomalies.BETTER, "none")
        assert 0 <= float(rise.removesuffix("%")) < 2  # the median of the phases damps them


def test_values_of_zero_cannot_get_better():
    device = pa.device("a100").replace(dram_latency_spread=0, dram_latency_growth=0)
    value, rise = anomalies.largest(pa.predict(*copy(), device))
    assert value not in ("dram_latency_spread", "dram_latency_growth")
    assert rise == pytest.approx(0, abs=0.02)


def test_every_better_value_is_one_of_the_device():
    device = pa.device("a100")
    assert all(getattr(device, key) > 0 for key in anomalies.BETTER)

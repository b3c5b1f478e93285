"""The line above the tests says which engine simulates, where there is something to simulate."""

import pytest

import perfassert as pa
from perfassert.engines.pipeline.compiled import available
from perfassert.pytest_plugin import header
from perfassert.version import VERSION

QUIET = ("-p", "no:randomly", "-p", "no:cacheprovider")


def lines(pytester, *arguments):
    pytester.makepyfile("def test_nothing(): pass")
    found = pytester.runpytest_inprocess(*QUIET, *arguments).stdout.lines
    return [line for line in found if line.startswith("perfassert: ")]


@pytest.mark.parametrize(
    ("compiled", "said"),
    [
        (True, f"perfassert: {VERSION}, compiled engine"),
        (
            False,
            f"perfassert: {VERSION}, no compiled engine: nothing can be predicted",
        ),
    ],
)
def test_either_engine(pytester, monkeypatch, compiled, said):
    monkeypatch.setattr(header, "available", lambda: compiled)
    assert lines(pytester, "--perf-device", "a100") == [said]


def test_it_is_the_engine_that_simulates():
    builder = pa.InstructionGraph.builder()
    builder.op("x")
    used = pa.simulate(builder.build(), 1, 1, 1, {"x": pa.Latency(1, 7)}).engine
    assert used == ("compiled" if available() else "reference")
    assert f"{used} engine" in header.line()


def test_the_ini_file_counts_and_nothing_is_said_without_a_device(pytester):
    assert lines(pytester) == []
    pytester.makeini("[pytest]\nperf_devices = a100\n")
    assert len(lines(pytester)) == 1

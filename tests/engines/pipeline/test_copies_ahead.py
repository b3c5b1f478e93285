"""Loops that copy a tile ahead (``cp.async``): the longer of both and the fill; else the sum."""

import pytest

import perfassert as pa


def cycles(ahead, trips, transfer, latency, math):
    """Return the cycles of a warp whose copies occupy memory for ``transfer`` each and arrive after
    ``latency``."""
    g = pa.InstructionGraph.builder()
    first = g.op("copy") if ahead else None
    with g.loop(trips) as body:
        if ahead:
            g.op("copy", name="tile")
            g.op("math", body.carried("tile", init=first), body.carried("sum"), name="sum")
        else:  # the tile's place is free again when the product is complete
            tile = g.op("copy", body.carried("sum"))
            g.op("math", tile, name="sum")
    latencies = {"copy": pa.Latency(transfer, latency), "math": pa.Latency(1, math)}
    found = (
        pa.simulate(g.build(), 1, 1, 1, latencies, issue_order="in-order", fast_forward=fast)
        for fast in (True, False)
    )
    (time,) = {s.cycles for s in found}
    return time


@pytest.mark.parametrize("trips", [1, 2, 50])
@pytest.mark.parametrize(
    ("transfer", "latency", "math"), [(10, 90, 100), (40, 60, 60), (70, 70, 30), (100, 100, 99)]
)
def test_the_longer_of_both_and_the_fill(trips, transfer, latency, math):
    assert cycles(True, trips, transfer, latency, math) == latency + trips * max(transfer, math)
    assert cycles(False, trips, transfer, latency, math) == trips * (latency + math)


def test_a_copy_that_takes_longer_than_a_product_wants_more_stages():
    """With one tile ahead, a copy is issued with the product before it, and awaited after it."""
    trips, latency, math = 40, 180, 60
    issued, done = [0], 0.0
    for _ in range(trips):
        arrived = issued[-1] + latency
        issued.append(max(issued[-1] + 1, done - math if done else 0))
        done = max(done, arrived) + math
    end = max(done, issued[-1] + latency)
    assert cycles(True, trips, 1, latency, math) == end

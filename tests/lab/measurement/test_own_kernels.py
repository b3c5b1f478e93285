"""The kernels of our own: every launch can be predicted, and what they improve is predicted so.

By default a sample of the launches; ``PERFASSERT_ALL_ROWS=1`` has all of them on each device.
"""

import os
import re

import pytest
from own_suite import DEVICES, PATH, predicted, suite

from perfassert.lab.measurement.plan import improved_pairs, jobs, parameter_columns

pytestmark = pytest.mark.exhaustive(one_in=4)

OWN = suite()
JOBS = jobs(OWN)
STEP = 1 if os.environ.get("PERFASSERT_ALL_ROWS") else 17  # no divisor of the number of rows
NOT_FASTER = {  # on the A100, as predicted; whether it is so has not been measured
    ("transpose_naive", "transpose_conflicts"): "4 % slower at n = 1024, faster from 4096 on",
    ("sum_divergent", "sum_tree"): "5 to 10 % slower",
}


def test_the_suite_is_what_it_should_be():
    assert len(OWN.kernels) >= 24
    assert all(len(spec.rows) >= 2 for spec in OWN.kernels.values())
    assert len(list(improved_pairs(OWN))) >= 20
    assert parameter_columns(OWN)[:2] == ("n", "block")
    assert len({job.key for job in JOBS}) == len(JOBS)
    problems = {}
    for job in JOBS:
        problems.setdefault(job.problem, []).append(job.kernel)
    assert problems["transpose_naive 1"] == [
        "transpose_naive", "transpose_conflicts", "transpose_padded",
    ]  # fmt: skip


PUBLISHED = ("bins", "lattice_boltzmann", "matmul_ladder", "matvec")  # of suites of their own


def test_every_kernel_of_the_sources_is_in_the_suite():
    used = {(spec.cuda.path.name, spec.cuda.kernel) for spec in OWN.kernels.values()}
    written = {
        (path.name, name)
        for path in (PATH.parent / "kernels").glob("*.cu")
        if path.stem not in PUBLISHED
        for name in re.findall(r"__global__ void (\w+)\(", path.read_text())
    }
    assert used == written


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("device", DEVICES)
def test_rows_can_be_predicted(device):
    start = DEVICES.index(device)
    for job in JOBS[start::STEP]:
        found = predicted(OWN, job.kernel, job.cells, device)
        assert float(found.time) > 0, job.text
        strange = [
            str(a)
            for a in found.assumptions
            if re.search("leaves the function|not followed|no table|contradict", str(a))
        ]
        assert not strange, job.text


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(*pair, marks=pytest.mark.xfail(strict=True, reason=NOT_FASTER[pair]))
        if pair in NOT_FASTER
        else pair
        for pair in improved_pairs(OWN)
    ],
)
def test_pairs_are_predicted_to_be_faster(before, after):
    times = [
        float(predicted(OWN, name, OWN.kernels[name].rows[0], "A100-SXM4-40GB").time)
        for name in (before, after)
    ]
    assert times[1] < times[0]


def test_the_clock_of_a_row_is_the_clock_of_its_prediction():
    row = {"n": "1048576", "block": "256"}
    device = "A100-SXM4-40GB"
    slow = predicted(OWN, "black_scholes", row, device, "765000000")
    fast = predicted(OWN, "black_scholes", row, device)
    assert slow.bounds["compute"] > 1.5 * float(fast.bounds["compute"])

"""Code and launches together: what the comment says is what the exit status says."""

import pytest

from perfassert.baseline.tolerance import tolerances
from perfassert.comparison.compare import ReportComparison
from perfassert.comparison.kernel_changes import CodeDiff
from perfassert.comparison.launched import LaunchComparison
from perfassert.comparison.launched_text import markdown


@pytest.mark.parametrize("key", ["failures", "changed"])
def test_what_fails_without_a_slower_launch_has_no_tick(key):
    told = {"failures": (), "unknown": (), "changed": (), key: ("copy: something else",)}
    times = LaunchComparison(
        ReportComparison(tolerances("2 %", {})[0]["time"], ()), **told, timed=True
    )
    assert times.fails(allow_gone=False)
    comment = markdown(CodeDiff("base", "head", (), {}), times, failed=True)
    assert not comment.startswith("## ✅")

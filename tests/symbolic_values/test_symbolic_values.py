"""Symbolic values of random programs are those that both executors compute.

``python -m symbolic_values.compare 100000 1`` in tests/ tries that many, and says how many words
were known.
"""

import pytest

from perfassert.engines.execution.compiled import available

from .compare import compare

SEED, COUNT, PARTS = 1, 2000, 8
LEAST_KNOWN = 0.4
"""Of all words that threads store: what is never known would never be wrong."""


@pytest.mark.exhaustive(one_in=8)
@pytest.mark.parametrize("part", range(PARTS))
def test_known_values_are_those_executed(part):
    known = stored = 0
    for number in range(SEED + part, SEED + COUNT, PARTS):
        both = (True, False) if number % 8 == part and available() else (available(),)
        found = compare(number, both)
        known, stored = known + found[0], stored + found[1]
    assert known > LEAST_KNOWN * stored

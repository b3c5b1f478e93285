"""How wrong the model is known to be, per metric."""

from __future__ import annotations

from functools import lru_cache

from perfassert.hardware.shipped import read_fit

_LIKE = {
    "cycles": "time",
    "roofline_time": "time",
    "dram_volume": "dram_load",
    "l2_volume": "l2_load",
    "advice_speedup": "time",
}


@lru_cache(maxsize=1)
def _table() -> dict[str, float]:
    table = read_fit("model-error")
    return {key: float(entry["error"]) for key, entry in table.items() if key != "sources"}


def model_error(metric: str) -> float:
    """Relative error of a metric, or 0 where it is exact."""
    return _table().get(_LIKE.get(metric, metric), 0.0)


def ranking_band() -> float:
    """Two times closer than this share of the smaller one count as tied."""
    return _table()["ranking"]

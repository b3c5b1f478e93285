"""``helion_autotuner`` inside Helion, which generates and launches nothing."""

import pytest

import perfassert as pa
from perfassert.frontends.toolchain import tools

SOURCE = """
import helion
import helion.language as hl
import torch

import perfassert as pa

CONFIGS = [
    helion.Config(block_sizes=[1, 1], num_warps=4, pid_type="flat"),
    helion.Config(block_sizes=[1, 1024], num_warps=4, pid_type="flat"),
    helion.Config(block_sizes=[8, 256], num_warps=4, pid_type="persistent_blocked"),
]


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(out.size()):
        out[tile] = x[tile] + y[tile]
    return out


def bind(function, **options):
    autotuner = pa.tuning.helion_autotuner(**{"device": "a100", "measure": False} | options)
    kernel = helion.kernel(function, backend="triton", autotuner_fn=autotuner)
    args = (torch.zeros(2048, 1024), torch.zeros(2048, 1024))
    return kernel.bind(args), args
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory, import_text):
    pytest.importorskip("torch")
    pytest.importorskip("helion")
    if tools.find("nvdisasm") is None:
        pytest.skip("nvdisasm is not installed")
    return import_text(tmp_path_factory.mktemp("helion") / "added.py", SOURCE)


def test_the_best_by_prediction(module, caplog):
    """A block for each number is the slowest; a persistent kernel has as many as the device SMs."""
    bound, args = module.bind(module.add, keep=0.3, configs=module.CONFIGS)
    best = bound.autotune(args)
    assert best in module.CONFIGS[1:]
    assert "add on A100-SXM4-40GB: kept" in caplog.text
    assert "not predicted" not in caplog.text
    assert "of 3 configurations, dropped" in caplog.text


def test_what_is_kept_is_measured(module, monkeypatch):
    from helion import autotuner

    asked = []

    class Search:
        def __init__(self, kernel, args, configs):
            asked.extend(configs)

        def autotune(self, *, skip_cache=False):
            return asked[-1]

    monkeypatch.setattr(autotuner, "FiniteSearch", Search)
    bound, args = module.bind(module.add, keep=0.6, configs=module.CONFIGS, measure=True)
    assert bound.autotune(args) is asked[-1]
    assert 2 <= len(asked) <= 3
    assert module.CONFIGS[0] not in asked


def test_helion_draws_where_none_are_given(module, caplog):
    bound, args = module.bind(module.add, count=3)
    assert bound.autotune(args) is not None
    assert "of 3 configurations" in caplog.text


def test_nothing_can_be_predicted(module):
    """The reason is Helion's."""
    configs = [module.helion.Config(block_sizes=[16])]
    bound, args = module.bind(module.add, configs=configs)
    with pytest.raises(pa.RankingError, match=r"no configuration of 'add'.*\n.*InvalidConfig"):
        bound.autotune(args)


def test_settings_are_checked():
    with pytest.raises(pa.RankingError, match="keep must be above 0"):
        pa.tuning.helion_autotuner(keep=-1)
    with pytest.raises(pa.RankingError, match="count"):
        pa.tuning.helion_autotuner(count=0)

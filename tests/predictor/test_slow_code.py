"""Statements that make code slower cost time, are announced, or are known to be free."""

import importlib
import re
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
DEVICES = ("A100-SXM4-40GB", "RTX-3080", "H100-SXM5-80GB")


@pytest.fixture
def slow_code(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("slow_code")


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("device", DEVICES)
def test_no_statement_is_free_in_silence(slow_code, device):
    variants = slow_code.variants_of(device)
    for variant, result in zip(variants, slow_code.compare_variants(device), strict=True):
        assert variant.free or not result.is_free_in_silence(), (variant.what, result)


def test_a_statement_that_costs_nothing_and_is_not_announced_is_free_in_silence(slow_code):
    assert slow_code.Result("k", 1.0, "measured", ()).is_free_in_silence()
    assert not slow_code.Result("k", 1.03, "measured", ()).is_free_in_silence()
    assert not slow_code.Result("k", 1.0, "guessed", ("not known",)).is_free_in_silence()


def test_every_variant_is_a_kernel_and_the_other_way_round(slow_code):
    named = {"base", *(v.kernel for v in slow_code.VARIANTS)}
    defined = re.findall(r"^KERNEL\((\w+),", slow_code.SOURCE.read_text(), re.MULTILINE)
    assert named == set(defined)

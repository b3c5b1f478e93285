"""Why a time has risen: the same sentence of two entries, wherever they come from."""

import re
from dataclasses import replace

import pytest
from slowdowns import SLOWDOWNS

import perfassert as pa
from perfassert.baseline.cause import explain
from perfassert.baseline.entry import entry_of
from perfassert.baseline.why import explain_rise
from perfassert.comparison.compare import compare
from perfassert.comparison.history import cause_of
from perfassert.comparison.read import PredictionKey, Reported, ReportFile
from perfassert.frontends.toolchain import tools

pytestmark = pytest.mark.exhaustive(one_in=2)

LAUNCH = {"kernel": "k", "kernel_digest": "a", "grid": [64], "block": [256, 1, 1], "updates": 64}
BEFORE = {
    **LAUNCH, "time": 10e-6, "limiter": "dram", "occupancy": 1.0, "registers": 32,
    "spill_bytes": 0, "instructions": 1000, "dram_load": 80, "dram_store": 20, "l2_load": 80,
    "l2_store": 20, "l1_cycles": 100, "shared_wavefronts": 10, "resident_blocks": 8,
    "bounds": {
        "dram": 8e-6, "l2": 4e-6, "l1": 2e-6, "shared": 1e-6, "compute": 3e-6, "issue": 2e-6,
    },
    "fields": {"in": {"dram_load": {"compulsory": 80}}, "out": {"dram_store": {"compulsory": 20}}},
}  # fmt: skip


def after(**changes):
    """Other code; ``bounds``: those that change."""
    bounds = {**BEFORE["bounds"], **changes.pop("bounds", {})}
    return {**BEFORE, "kernel_digest": "b", "bounds": bounds, **changes}


def test_nothing_is_said_of_a_time_that_has_not_risen():
    assert explain(BEFORE, BEFORE) is None
    assert explain(BEFORE, after(time=9e-6)) is None


def test_the_bound_that_decides_is_reverted():
    """Reverting 190 new of 300 cycles of shared memory leaves 20 − 12.7 µs, below 8 µs of DRAM."""
    new = after(time=22e-6, shared_wavefronts=200, instructions=1500, bounds={"shared": 20e-6})
    explanation = explain(BEFORE, new)
    texts = [cause.text for cause in explanation.causes]
    assert texts == ["20 times the wavefronts of shared memory (bank conflicts)"]
    assert explanation.causes[0].bounds["shared"] == pytest.approx(20e-6 * (1 - 190 / 300))
    assert explanation.share == 1.0


def test_other_compilers_are_named_beside_the_cause():
    slower = {"time": 22e-6, "shared_wavefronts": 200, "bounds": {"shared": 20e-6}}
    old = {**BEFORE, "compilers": "nvcc 13.0 with gcc 12.2"}
    new = {**after(**slower), "compilers": "nvrtc 13.5"}
    said = "compiled otherwise: nvcc 13.0 with gcc 12.2 → nvrtc 13.5"
    assert explain_rise(old, new) == f"{explain_rise(BEFORE, new)}; {said}"
    assert "shared memory" in explain_rise(old, new)
    alone = {**after(time=22e-6, bounds={"dram": 22e-6}), "compilers": "nvrtc 13.5"}
    assert explain_rise(old, alone) == said  # nothing else explains it
    assert "shared memory" in explain_rise(BEFORE, new)  # which compiler it was is not known
    assert "compiled" not in explain_rise(old, {**new, "kernel_digest": "a"})


def test_two_resources_that_are_busy_alike_are_reverted_together():
    """Without either one the other keeps the time."""
    new = after(
        time=22e-6, shared_wavefronts=200, instructions=8000,
        bounds={"shared": 20e-6, "compute": 20e-6, "issue": 19e-6},
    )  # fmt: skip
    texts = [c.text for c in explain(BEFORE, new).causes]
    assert texts == [
        "20 times the wavefronts of shared memory (bank conflicts)",
        "8 times the instructions for the same accesses",
    ]
    assert "reverting both removes 100 % of the slowdown" in str(explain(BEFORE, new))


def test_the_share_is_that_of_the_bounds():
    """100 of 200 bytes go, so that 8 of 16 µs do, and with all that bounds have grown by the 3 of 5
    µs beside them that are new."""
    fields = {**BEFORE["fields"], "in": {"dram_load": {"compulsory": 180}}}
    new = after(time=21e-6, dram_load=180, fields=fields, bounds={"dram": 16e-6})
    (cause,) = explain(BEFORE, new).causes
    assert cause.text.startswith("dram_load of in: compulsory 80 B → 180 B")
    assert explain(BEFORE, new).share == pytest.approx(1.0)


def test_traffic_that_moves_to_another_field_costs_nothing():
    fields = {"in": {"dram_load": {"compulsory": 0}}, "new": {"dram_load": {"compulsory": 90}}}
    new = after(time=14e-6, dram_load=90, dram_store=20, fields={**BEFORE["fields"], **fields})
    new = {**new, "instructions": 9000, "bounds": {**new["bounds"], "issue": 12e-6}}
    assert "9 times the instructions" in str(explain(BEFORE, new))


def test_shared_memory_that_is_no_longer_used():
    new = after(
        time=30e-6, shared_wavefronts=0, l1_cycles=900, bounds={"l1": 28e-6, "shared": 28e-6}
    )
    assert "shared memory is hardly used any more: 10 → 0 wavefronts" in str(explain(BEFORE, new))


@pytest.mark.parametrize("name", ["global 0x0", "constant 0x160", "unknown array"])
def test_an_assumed_address_is_never_blamed(name):
    fields = {**BEFORE["fields"], name: {"dram_load": {"compulsory": 900}}}
    new = after(
        time=90e-6, dram_load=980, fields=fields, instructions=14000, spill_bytes=40,
        bounds={"dram": 80e-6, "issue": 79e-6},
    )  # fmt: skip
    assert name not in str(explain(BEFORE, new))


def test_an_uncertain_rise_says_so():
    assert "sure that it is slower)" in str(explain(BEFORE, after(time=10.05e-6)))
    assert "sure" not in str(explain(BEFORE, after(time=50e-6)))


def test_the_launch_is_all_that_differs_where_the_code_is_the_same():
    new = {**after(time=40e-6, updates=256, instructions=4000), "kernel_digest": "a"}
    assert "4 times the work, 64 → 256 threads" in str(explain(BEFORE, new))
    other = {**after(time=40e-6, grid=[8]), "kernel_digest": "a"}
    assert "a grid of 8 instead of 64 blocks" in str(explain(BEFORE, other))


def test_arithmetic_in_double_is_named_whatever_warps_wait_for():
    waits = after(time=15e-6, double_instructions=12, instructions=1020)
    assert "arithmetic in double: 0 → 12 instructions of the code" in str(explain(BEFORE, waits))
    was = {**BEFORE, "double_instructions": 12}
    assert "double" not in str(explain(was, waits))
    assert "double" not in str(explain(BEFORE, {**waits, "double_instructions": 1}))


def test_redundant_accesses_are_not_called_uncoalesced():
    """Entries do not tell 32 times the loads from scattered ones; the code of the new one does."""
    base = {"in": {**BEFORE["fields"]["in"], "l1_cycles": {"loads": 90}}}
    more = {"in": {**BEFORE["fields"]["in"], "l1_cycles": {"loads": 2880}}}
    old = {**BEFORE, "fields": base}
    new = after(time=40e-6, l1_cycles=2890, fields=more, bounds={"l1": 38e-6})
    assert "32 times the cycles of the L1 (uncoalesced)" in str(explain(old, new))
    said = str(explain(old, new, coalesced={"in"}))
    assert "32 times the cycles of the L1" in said
    assert "uncoalesced" not in said


def test_a_rise_by_a_guess_says_so_first():
    new, known = after(time=50e-6, confidence="guessed"), {**BEFORE, "confidence": "measured"}
    assert ", by a guess, which the baseline is not" in str(explain(known, new))
    assert "guess" not in str(explain({**BEFORE, "confidence": "guessed"}, new))
    assert "guess" not in str(explain(known, after(time=50e-6, confidence="measured")))


def test_other_blocks_are_the_cause_only_where_the_code_is_the_same():
    """The best shape follows when the code changes: blocks are blamed if nothing else is."""
    new = after(time=40e-6, block=[8, 32, 1], bounds={"l1": 38e-6}, l1_cycles=9000)
    assert "blocks of 8×32×1 instead of" in str(explain(BEFORE, {**new, "kernel_digest": "a"}))
    other = {**new, "kernel_digest": "b"}
    assert "threads and other code" in str(explain(BEFORE, other))
    slow = {"in": {**BEFORE["fields"]["in"], "l1_cycles": {"loads": 9000}}}
    scattered = {**other, "fields": {**BEFORE["fields"], **slow}}
    assert "8×32×1" not in str(explain(BEFORE, scattered))


@pytest.mark.exhaustive(one_in=14)
@pytest.mark.parametrize("name", SLOWDOWNS)
def test_slowdowns_made_in_kernels(name, tmp_path):
    """The first sentence names the cause, and it is the same for pytest, two reports, a history
    and a diff of launches."""
    slowdown = SLOWDOWNS[name]
    try:
        before, now = slowdown.predict(tmp_path)
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))
    old, new = entry_of(before), entry_of(now)
    first = str(explain(old, new))
    assert re.search(slowdown.says, first), first
    now = replace(now, kernel=before.kernel)
    assert explain_rise(old, new, now).startswith(first)
    assert cause_of(old, new).startswith(first)
    key = PredictionKey("test", "k", "")
    files = (
        ReportFile(tmp_path, p.model_version, {key: Reported(p, None, {}, {})}, False, {})
        for p in (before, now)
    )
    (item,) = compare(*files).items
    assert item.reason.startswith(first) or item.status.value != "slower"


def test_the_advice_that_brings_back_what_was_lost_is_quoted(tmp_path):
    if tools.find("nvrtc") is None:
        pytest.skip("NVRTC is not installed")
    source = tmp_path / "k.cu"
    body = "float s = b[i]; for (int j = 0; j < 64; ++j) s = s * {} + 0.5f; a[i] = s;"
    at = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
    predictions = []
    for factor in ("0.3f", "0.3"):
        text = f"__global__ void k(float* a, const float* b) {{ {at}\n{body.format(factor)} }}\n"
        source.write_text(text)
        predictions.append(pa.predict(pa.from_cuda(source), pa.Launch(4096, 256), "rtx3090"))
    base, head = predictions
    why = explain_rise(entry_of(base), entry_of(head), head, base)
    assert re.match(r"time \d+(\.\d)? times as long: ", why)
    assert "advice: float and double are mixed" in why
    assert "at k.cu:2 (" in why

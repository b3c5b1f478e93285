"""Answers of earlier processes: the same to the last digit, and of nothing else."""

import json

import numpy as np
import pytest

import perfassert as pa
from perfassert.frontends.toolchain import cache, tools
from perfassert.prediction.prediction import values_data
from perfassert.predictor import session as sessions
from perfassert.predictor import stored
from perfassert.predictor.answer import is_intact
from perfassert.predictor.judge import judge as judges

CODE = """
extern "C" __global__ void add(float* a, const float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] += b[i];
}
extern "C" __global__ void take(const float* table, const int* index, float* a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = table[index[i]];
}
"""
COUNT = 1 << 16
FIELD = pa.Field("a", shape=COUNT)


def described(stores="a[x]"):
    return pa.Kernel.from_accesses("fill", [FIELD], stores=[stores])


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def compiled(tmp_path):
    if tools.find("nvrtc") is None or tools.find("nvdisasm") is None:
        pytest.skip("nvrtc or nvdisasm is not installed")
    file = tmp_path / "kernels.cu"
    file.write_text(CODE)
    return lambda name: pa.from_cuda(file, name)


def recall(kernel, launch, device="a100"):
    """The answer of a session that knows nothing."""
    with sessions.Session() as session:
        return session.recall(kernel, launch, device)


@pytest.fixture
def computed(monkeypatch):
    """The questions whose answers are computed."""
    made = []
    real = judges.judge

    def judge(question, model):
        made.append(question)
        return real(question, model)

    monkeypatch.setattr(judges, "judge", judge)
    return made


def questions(compiled):
    line = {"n": COUNT}
    index = pa.Buffer(data=np.arange(COUNT, dtype=np.int32)[::-1].copy())
    yield described(), pa.Launch(COUNT // 256, 256), "a100"
    yield described(), pa.Launch(COUNT // 256, 256), "h100"
    yield compiled("add"), pa.Launch(COUNT // 256, 256, line), "a100"
    yield compiled("take"), pa.Launch(COUNT // 256, 256, line), "rtx-4090"
    yield compiled("take"), pa.Launch(COUNT // 256, 256, {**line, "index": index}), "a100"


def test_a_recalled_answer_is_the_computed_one(compiled, computed):
    asked = [*questions(compiled)]
    first = [recall(*one) for one in asked]
    assert len(computed) == len(asked)
    for one, before in zip(asked, first, strict=True):
        again = recall(*one)
        with sessions.Session() as session:
            alone = session.predict(*one)
        for other in (before, alone):
            assert again == other
            assert json.dumps(values_data(again)) == json.dumps(values_data(other))
            assert again.to_dict() == other.to_dict()  # with stalls and advice
        assert is_intact(again)
        assert again.origin is not None
        assert again.timeline == alone.timeline
    assert len(computed) > len(asked)  # those that were asked without the cache


def test_recalling_computes_nothing(compiled, monkeypatch):
    for one in questions(compiled):
        recall(*one)

    def judge(question, model):
        raise AssertionError("computed")

    monkeypatch.setattr(judges, "judge", judge)
    for one in questions(compiled):
        assert recall(*one).time > 0


OTHERS = {
    "launch": lambda: (described(), pa.Launch(COUNT // 256, 128), "a100"),
    "device": lambda: (described(), pa.Launch(COUNT // 256, 256), "rtx-3090"),
    "value of a device": lambda: (
        described(), pa.Launch(COUNT // 256, 256), pa.device("a100").replace(dram_bandwidth=1e12)
    ),
    "kernel": lambda: (described("a[0]"), pa.Launch(COUNT // 256, 256), "a100"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_another_question_is_computed(name, computed):
    recall(described(), pa.Launch(COUNT // 256, 256))
    recall(*OTHERS[name]())
    assert len(computed) == 2


def test_code_and_contents_are_parts_of_the_question(compiled, computed, tmp_path):
    launch = pa.Launch(COUNT // 256, 256, {"n": COUNT})
    recall(compiled("add"), launch)
    (tmp_path / "kernels.cu").write_text(CODE.replace("a[i] += b[i]", "a[i] *= b[i] + 1"))
    recall(compiled("add"), launch)
    assert len(computed) == 2
    index = np.zeros(COUNT, dtype=np.int32)
    for _ in range(2):
        recall(compiled("take"), pa.Launch(COUNT // 256, 256, {"n": COUNT, "index": index.copy()}))
        index[::2] = 5
    assert len(computed) == 4


def test_another_state_of_the_package_computes(computed, monkeypatch):
    recall(described(), pa.Launch(16, 256))
    monkeypatch.setattr(stored, "predictor_digest", lambda: "another")
    recall(described(), pa.Launch(16, 256))
    assert len(computed) == 2


@pytest.mark.parametrize("missing", ["library", "files"])
def test_nothing_is_stored_where_the_package_is_unknown(computed, monkeypatch, missing, tmp_path):
    stored.predictor_digest.cache_clear()
    if missing == "library":
        monkeypatch.setattr(stored, "_LIBRARIES", ("no-such-library",))
    else:
        monkeypatch.setattr(stored, "fit_path", lambda name: tmp_path / "nothing" / name / "x")
    for _ in range(2):
        recall(described(), pa.Launch(16, 256))
    stored.predictor_digest.cache_clear()
    assert len(computed) == 2
    assert not cache.folder().exists()


def test_the_digest_is_of_names_and_contents(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one.py").write_text("x = 1")
    (tmp_path / "table.toml").write_text("x = 1")
    known = {stored.files_digest(tmp_path)}
    for change in (
        lambda: (tmp_path / "deep" / "one.py").write_text("x = 2"),
        lambda: (tmp_path / "table.toml").write_text("y = 1"),
        lambda: (tmp_path / "core.abi3.so").write_bytes(b"code"),
        lambda: (tmp_path / "deep" / "one.py").rename(tmp_path / "one.py"),
    ):
        change()
        assert stored.files_digest(tmp_path) not in known
        known.add(stored.files_digest(tmp_path))
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "one.pyc").write_bytes(b"made")
    assert stored.files_digest(tmp_path) in known
    assert len(stored.predictor_digest()) == 64


@pytest.mark.parametrize("damage", [b"", b"no entry", None])
def test_a_damaged_entry_is_computed_again(computed, damage):
    launch = pa.Launch(16, 256)
    expected = recall(described(), launch)
    (entry,) = cache.folder().iterdir()
    entry.write_bytes(entry.read_bytes()[:-3] if damage is None else damage)
    assert recall(described(), launch) == expected
    assert len(computed) == 2
    assert recall(described(), launch) == expected
    assert len(computed) == 2


def test_an_entry_of_another_shape_is_computed_again(computed):
    launch = pa.Launch(16, 256)
    expected = recall(described(), launch)
    (entry,) = cache.folder().iterdir()
    cache.store(entry.stem, {"kernel": "fill", "time": "long"})
    assert recall(described(), launch) == expected
    assert len(computed) == 2


def test_an_entry_that_somebody_else_wrote_is_not_read_beside_an_untrusted_build(computed):
    launch = pa.Launch(16, 256)
    with cache.seal_entries():
        recall(described(), launch)
        (entry,) = cache.folder().iterdir()
        content = entry.read_bytes()
        entry.unlink()
        entry.write_bytes(content)
        recall(described(), launch)
    assert len(computed) == 2


def test_values_that_json_changes_are_not_stored(monkeypatch, computed):
    launch = pa.Launch(16, 256)
    monkeypatch.setattr(stored, "values_data", lambda values: {"time": float("inf")})
    for _ in range(2):
        recall(described(), launch)
    assert len(computed) == 2
    assert not cache.folder().exists()


def test_a_question_without_a_key_is_computed(computed):
    made = []

    def make():
        made.append(1)
        return recall(described(), pa.Launch(16, 256))

    for _ in range(2):
        stored.recall_answer(None, make)
    assert len(made) == 2

"""Tests that a question has one answer in any order, process, thread and session."""

import gc
import pickle
import random
import weakref
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from random_kernels import contradicted
from random_kernels.measure import source_of

import perfassert as pa
from perfassert.engines.pipeline import simulate
from perfassert.engines.pipeline.simulate import run_bounded
from perfassert.predictor.diagnose import diagnose
from perfassert.predictor.memo import Memo
from perfassert.source import CORRECTED

COPY = """
extern "C" __global__ void k(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[INDEX];
}
"""
GATHER = """
extern "C" __global__ void gather(const int* x, const float* t, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = t[x[i]];
}
"""
N = 1 << 16


@pytest.fixture(autouse=True)
def toolchain():
    pytest.importorskip("nvidia.cu13")


def described():
    fields = [pa.Field("a", shape=(256, 1024), halo=1), pa.Field("b", shape=(256, 1024))]
    return pa.Kernel.from_accesses("k", fields, ["a[y, x + 1]", "a[y - 1, x]"], ["b[y, x]"])


def answer(question, session, diagnosis=False):
    """A prediction as plain data, or what is raised instead."""
    kernel, launch, device = question
    try:
        return session.predict(kernel, launch, device).to_dict(diagnosis)
    except pa.PerfAssertError as error:
        return f"{type(error).__name__}: {error}"


@pytest.fixture(scope="module")
def drawn():
    return contradicted.kept()


@pytest.fixture(scope="module")
def kernels(drawn, tmp_path_factory):
    path = tmp_path_factory.mktemp("contradicted") / "kernels.cu"
    path.write_text(source_of(drawn))
    return [pa.from_cuda(path, kernel.instance()) for kernel in drawn]


class TestOrder:
    """Tests that contradictions found in executed blocks of one launch decide for no other."""

    def test_every_kept_kernel_is_contradicted(self, drawn, kernels):
        assert len(drawn) >= 40
        session = pa.Session()
        for generated, kernel in zip(drawn, kernels, strict=True):
            launch = contradicted.launches(generated)[0]
            prediction = session.predict(kernel, launch, "a100")
            assert contradicted.is_contradicted(prediction), kernel

    def test_answers_are_the_same_in_any_order(self, drawn, kernels):
        chosen = random.Random(0).sample(range(len(drawn)), 16)
        questions = [
            (kernels[n], launch, "a100")
            for n in chosen
            for launch in contradicted.launches(drawn[n])[:2]
        ]

        def ask(number, session):
            return answer(questions[number], session, diagnosis=number % 6 == 0)

        alone = [ask(n, pa.Session(budget=0)) for n in range(len(questions))]
        differ = sum(CORRECTED in str(a) for a in alone)
        assert len(chosen) <= differ < len(questions)
        for seed in range(2):
            order = random.Random(seed).sample(range(len(questions)), len(questions))
            session = pa.Session()
            answers = {n: ask(n, session) for n in order}
            assert [answers[n] for n in range(len(questions))] == alone


def test_the_time_stalls_and_advice_are_of_one_state_of_the_file(tmp_path):
    path = tmp_path / "k.cu"
    launch = pa.Launch.cover(1 << 22, 256, {"n": 1 << 22})
    texts = [COPY.replace("INDEX", index) for index in ("i", "(i * 32) % n")]
    right = []
    for text in texts:
        path.write_text(text)
        right.append(pa.predict(pa.from_cuda(path), launch, "a100").to_json())
    assert right[0] != right[1]
    kernel = pa.from_cuda(path)
    for number in (0, 1, 0):
        path.write_text(texts[number])
        prediction = pa.predict(kernel, launch, "a100")
        path.write_text(texts[1 - number])
        assert prediction.to_json() == right[number]
        path.unlink()
        assert prediction.to_json() == right[number]


def test_a_diagnosis_outlives_its_session_and_its_file(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text(COPY.replace("INDEX", "(i * 32) % n"))
    launch = pa.Launch.cover(1 << 22, 256, {"n": 1 << 22})
    with pa.Session() as session:
        late = session.predict(pa.from_cuda(path), launch, "a100")
        early = session.predict(pa.from_cuda(path), launch, "a100").to_json()
    path.unlink()
    gc.collect()
    assert late.to_json() == early
    assert late.advice


def test_an_array_is_what_it_holds_when_it_is_asked_about(tmp_path):
    path = tmp_path / "gather.cu"
    path.write_text(GATHER)
    index = np.arange(N, dtype=np.int32)
    launch = pa.Launch.cover(N, 256, {"x": index, "t": pa.Buffer((N,), "float32"), "n": N})
    kernel = pa.from_cuda(path)
    loads, questions = [], []
    for content in (np.arange(N), np.random.default_rng(1).permutation(N), np.arange(N)):
        index[:] = content
        prediction = pa.predict(kernel, launch, "a100")
        index[:] = 0
        assert prediction.stalls  # of the content that it was asked about
        loads.append(float(prediction.volumes.l2_load.per_thread))
        questions.append(prediction.question)
    assert loads[0] == loads[2] == 8.0
    assert loads[1] > 30
    assert questions[0] == questions[2] != questions[1]


def test_a_file_of_an_array_is_read_with_each_question(tmp_path):
    (tmp_path / "gather.cu").write_text(GATHER)
    launch = None
    loads = []
    for content in (np.arange(N), np.random.default_rng(1).permutation(N)):
        np.save(tmp_path / "x.npy", content.astype(np.int32))
        launch = launch or pa.Launch.cover(
            N, 256, {"x": pa.Buffer(data=tmp_path / "x.npy"), "n": N}
        )
        prediction = pa.predict(pa.from_cuda(tmp_path / "gather.cu"), launch, "a100")
        loads.append(float(prediction.volumes.l2_load.per_thread))
    assert loads[0] == 8.0 < loads[1]


def test_launches_with_equal_contents_share_one_array():
    session = pa.Session()
    launches = [pa.Launch(1, 32, {"x": np.arange(1000)}) for _ in range(3)]
    asked = [session.ask(described(), launch, pa.device("a100")) for launch in launches]
    first, *others = (question.launch.args["x"].data for question in asked)
    assert all(np.shares_memory(first, other) for other in others)
    assert not np.shares_memory(first, launches[0].args["x"].data)


def test_the_question_is_of_content_and_not_of_places(tmp_path):
    questions = set()
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "k.cu"
        path.write_text(COPY.replace("INDEX", "i"))
        questions.add(pa.predict(pa.from_cuda(path), pa.Launch(64, 128, {"n": 1}), "a100").question)
    assert len(questions) == 1
    path.write_text("\n" + COPY.replace("INDEX", "i"))  # another line in every message
    questions.add(pa.predict(pa.from_cuda(path), pa.Launch(64, 128, {"n": 1}), "a100").question)
    questions.add(pa.predict(pa.from_cuda(path), pa.Launch(64, 128, {"n": 2}), "a100").question)
    questions.add(pa.predict(pa.from_cuda(path), pa.Launch(64, 128, {"n": 2}), "h100").question)
    assert len(questions) == 4


def test_pickle_carries_a_diagnosis_only_if_there_is_one():
    launch = pa.Launch.cover((1024, 256), (32, 2))
    prediction = pa.predict(described(), launch, "a100")
    bare = pickle.loads(pickle.dumps(prediction))
    assert not prediction.diagnosed
    assert (bare.stalls, bare.advice, bare.question) == ({}, None, prediction.question)
    assert bare.timeline == ()
    diagnosis, lanes = prediction.diagnosis, prediction.timeline
    full = pickle.loads(pickle.dumps(prediction))
    assert (full.diagnosis, full.timeline) == (diagnosis, lanes)
    read = pa.Prediction.from_dict(prediction.to_dict())
    assert (read.stalls, read.timeline) == (diagnosis.stalls, ())


@pytest.mark.parametrize("change", [{"registers": 64}, {"shared_bytes": 1024}])
def test_what_is_said_to_be_otherwise_is_part_of_the_question(tmp_path, change):
    path = tmp_path / "k.cu"
    path.write_text(COPY.replace("INDEX", "i"))
    plain = pa.predict(pa.from_cuda(path), pa.Launch(64, 128, {"n": 1 << 13}), "a100")
    (name, value), resources = *change.items(), plain.resources
    changed = [pa.whatif(plain, **{name: value + n}).after for n in (0, 0, 1)]
    assert changed[0].question == changed[1].question != changed[2].question != plain.question
    assert getattr(changed[0].resources, name) == value
    same = pa.whatif(plain, **{name: getattr(resources, name)}).after
    assert same.to_dict() | {"question": ""} == plain.to_dict() | {"question": ""}


def test_code_with_changes_is_executed_as_without(tmp_path):
    """The results of execution also apply to the changed kernel."""
    path = tmp_path / "gather.cu"
    path.write_text(GATHER)
    index = np.random.default_rng(1).permutation(N).astype(np.int32)
    launch = pa.Launch.cover(N, 256, {"x": index, "n": N})
    plain = pa.predict(pa.from_cuda(path), launch, "a100")
    changed = pa.whatif(plain, registers=plain.resources.registers + 8).after
    assert changed.volumes.l2_load.total == plain.volumes.l2_load.total
    assert changed.volumes.l2_load.per_thread > 30


def test_a_question_is_diagnosed_once(monkeypatch):
    launch, count = pa.Launch.cover((1024, 256), (32, 2)), []
    real = diagnose.diagnose
    monkeypatch.setattr(diagnose, "diagnose", lambda *given: count.append(1) or real(*given))
    session = pa.Session()
    first, second = (session.predict(described(), launch, "a100") for _ in range(2))
    assert first.advice is second.advice
    assert len(count) == 1


def test_a_timeline_is_that_of_its_question(tmp_path):
    path = tmp_path / "k.cu"
    launch = pa.Launch.cover(1 << 22, 256, {"n": 1 << 22})
    found = []
    for index in ("i", "(i * 32) % n"):
        path.write_text(COPY.replace("INDEX", index))
        with pa.Session() as session:
            found.append(session.predict(pa.from_cuda(path), launch, "a100"))
        path.unlink()
    few, many = ({span for lane in p.timeline for span in lane} for p in found)
    assert few != many
    assert {span.reason for span in few} <= {*found[0].stalls, "launch", "drain"}
    path.write_text(COPY.replace("INDEX", "i"))
    assert pa.predict(pa.from_cuda(path), launch, "a100").timeline == found[0].timeline


def test_a_launch_with_measured_volumes_has_no_timeline():
    launch = pa.Launch.cover((1024, 256), (32, 2))
    measured = pa.predict(described(), launch, "a100", volumes={"dram_load": "8 B/thread"})
    assert measured.timeline == ()


@pytest.mark.parametrize("budget", [0, 100_000, 512 << 20])
def test_the_budget_changes_no_answer(budget):
    session = pa.Session(budget)
    launches = [pa.Launch.cover((1024, 256), (32 * n, 2)) for n in (1, 2, 4, 1, 2, 4)]
    found = [session.predict(described(), launch, "a100").to_json() for launch in launches]
    assert found == [pa.predict(described(), launch, "a100").to_json() for launch in launches]


class TestMemo:
    def test_the_least_recently_used_goes_first(self):
        memo, made = Memo(30), []

        def recall(key, size=10):
            return memo.recall("stage", key, lambda: made.append(key) or key, lambda _: size)

        for key in "abcab":
            recall(key)
        assert made == ["a", "b", "c"]
        recall("d")  # takes the place of c
        for key in "abd":
            recall(key)
        assert made == ["a", "b", "c", "d"]
        recall("large", 31)
        recall("large", 31)
        assert made[4:] == ["large", "large"]
        assert [recall(key) for key in "abd"] == ["a", "b", "d"]
        assert len(made) == 6

    def test_nothing_is_kept_that_was_dropped(self):
        class Value:
            pass

        memo = Memo(10)
        kept = weakref.ref(memo.recall("stage", 1, Value, lambda _: 10))
        assert kept() is not None
        memo.recall("stage", 2, Value, lambda _: 10)
        gc.collect()
        assert kept() is None

    def test_an_error_is_not_kept(self):
        memo, made = Memo(10), iter((ValueError("first"), 2))

        def make():
            value = next(made)
            if isinstance(value, Exception):
                raise value
            return value

        with pytest.raises(ValueError, match="first"):
            memo.recall("stage", 1, make, lambda _: 1)
        assert memo.recall("stage", 1, make, lambda _: 1) == 2

    def test_threads_that_ask_together_make_it_once(self):
        memo, made, together = Memo(1000), [], Barrier(8)

        def ask(_):
            together.wait()
            return [
                memo.recall("stage", key, lambda key=key: made.append(key) or key, lambda _: 1)
                for key in range(50)
            ]

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(ask, range(8))) == [[*range(50)]] * 8
        assert sorted(made) == [*range(50)]


def test_a_unit_that_another_launch_had_is_simulated_once(monkeypatch):
    """Blocks of the busiest unit are as many with 10,701 blocks as with 10,700."""
    fields = [pa.Field("a", shape=(1 << 22,)), pa.Field("b", shape=(1 << 22,))]
    kernel = pa.Kernel.from_accesses("copy", fields, ["a[x]"], ["b[x]"])
    launches = [pa.Launch(blocks, 256) for blocks in (10_700, 10_701, 12_000)]
    runs = []

    def counted(unit, limit):
        runs.append(unit.blocks)
        return run_bounded(unit, limit)

    monkeypatch.setattr(simulate, "run_bounded", counted)
    counts = []
    with pa.Session() as session:
        for launch in launches:
            before = len(runs)
            assert session.predict(kernel, launch, "a100") == pa.Session(budget=0).predict(
                kernel, launch, "a100"
            )
            counts.append(len(runs) - before)
    alone = counts[2] // 2  # both sessions
    assert counts == [2 * alone, alone, 2 * alone]
    assert alone > 1


def test_a_session_without_owner_is_freed_at_once():
    """What it keeps does not refer to it, so that its memory does not wait for a collection."""
    gc.disable()
    try:
        session = pa.Session()
        session.predict(described(), pa.Launch.cover((1024, 256), (32, 8)), "a100")
        gone = weakref.ref(session)
        del session
        assert gone() is None
    finally:
        gc.enable()


def test_launches_that_execute_the_same_share_their_nodes(tmp_path):
    """However often loops run; one launch of another block between them changes no answer."""
    (file := tmp_path / "k.cu").write_text(
        """extern "C" __global__ void k(float* a, int n) {
            for (int i = 0; i < n; ++i) a[threadIdx.x] += a[threadIdx.x + i * 1024];
            if (threadIdx.x > 99) a[threadIdx.x] = 1; }"""
    )
    given = (64, 256, 40), (99, 256, 80), (64, 128, 40), (99, 256, 80)
    launches = [pa.Launch(blocks, block, {"n": n}) for blocks, block, n in given]
    with pa.Session() as session:
        kernel = pa.predict(pa.from_cuda(file), launches[0], "a100").origin[0]
        asked = [session.ask(kernel, launch, pa.device("a100")) for launch in launches]
        models = [session.model(question) for question in asked]
        answers = [session.answer(question) for question in asked]
    first, second, other, again = (m.bound_launch.kernel.graph for m in models)
    assert first.nodes is second.nodes
    assert [x.trips for x in first.loops] != [x.trips for x in second.loops]
    assert other.nodes != second.nodes == again.nodes
    alone = [pa.predict(pa.from_cuda(file), launch, "a100") for launch in launches]
    assert [a.time for a in answers] == [p.time for p in alone]

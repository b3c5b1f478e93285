"""Compilations in threads: each thing is made once, and errors belong to whoever wants it."""

import threading

import pytest

from perfassert.errors import KernelSourceError
from perfassert.frontends.toolchain import ahead, cache, tools
from perfassert.frontends.toolchain.binary import Source

pytestmark = pytest.mark.exhaustive(one_in=3)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def started(monkeypatch):
    """Tools in the order in which they start, with the thread that starts them."""
    if not (tools.find("nvrtc") and tools.find("nvdisasm")):
        pytest.skip("nvrtc or nvdisasm is not installed")
    runs = []
    real = tools.run_tool

    def run(name, *args, **more):
        if name not in ("nvcc", "gcc"):
            runs.append((name, threading.current_thread().name.partition("_")[0]))
        return real(name, *args, **more)

    monkeypatch.setattr(tools, "run_tool", run)
    return runs


def in_threads(function, count):
    results = [None] * count

    def run(number):
        try:
            results[number] = function()
        except ValueError as error:
            results[number] = str(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    return results


def test_what_threads_ask_for_together_is_made_once():
    made = []
    everyone = threading.Barrier(4, timeout=60)

    def make():
        made.append(1)
        everyone.wait()  # the others are on their way
        return ["value"]

    def ask():
        if threading.current_thread().name != "first":
            everyone.wait()
        return cache.remember("a", make, list, list)

    first = threading.Thread(target=ask, name="first")
    first.start()
    assert in_threads(ask, 3) == [["value"]] * 3
    first.join(timeout=60)
    assert made == [1]
    assert cache.load("a", list) == ["value"]


def test_each_thread_gets_an_error_of_its_own():
    numbers = iter(range(10))

    def make():
        raise ValueError(next(numbers))

    errors = in_threads(lambda: cache.remember("a", make, list, list), 4)
    assert sorted(errors) == ["0", "1", "2", "3"]
    assert cache.remember("a", lambda: [5], list, list) == [5]


def sources(tmp_path, *texts):
    paths = [tmp_path / f"k{n}.cu" for n in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(f'extern "C" __global__ void k(int* a) {{ a[threadIdx.x] = {text}; }}')
    return [Source(path, "cuda", "k") for path in paths]


def test_what_comes_later_is_compiled_meanwhile(tmp_path, started):
    wanted = [(source, "sm_80") for source in sources(tmp_path, "1", "2", "3", "4")]
    with ahead.build_ahead(wanted):
        ahead.build(*wanted[0])
        while [name for name, _ in started].count("NVRTC") < 4:
            threading.Event().wait(0.01)
        assert [ahead.build(*one).kernel for one in wanted] == ["k"] * 4
    assert set(started) == {
        ("NVRTC", "MainThread"), ("NVRTC", "perfassert-ahead"), ("nvdisasm", "MainThread"),
    }  # fmt: skip
    assert [name for name, _ in started].count("nvdisasm") <= 3  # one reads several modules


def test_what_is_remembered_starts_nothing(tmp_path, started):
    wanted = [(source, "sm_80") for source in sources(tmp_path, "1", "2")]
    for one in wanted:
        ahead.build(*one)
    started.clear()
    with ahead.build_ahead(wanted):
        before = threading.active_count()
        for one in wanted:
            ahead.build(*one)
        assert threading.active_count() == before
    assert started == []


def test_errors_belong_to_whoever_wants_the_kernel(tmp_path, started):
    first, broken, last = [(s, "sm_80") for s in sources(tmp_path, "1", "nothing", "3")]
    with ahead.build_ahead([first, broken, last]):
        ahead.build(*first)
        assert ahead.build(*last).kernel == "k"
        for _ in range(2):
            with pytest.raises(KernelSourceError, match=r'k1.cu:1.*"nothing" is undefined'):
                ahead.build(*broken)

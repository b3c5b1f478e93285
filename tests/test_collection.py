"""The collector of reference cycles pauses while much is made that has none."""

import gc
import sys
from threading import Barrier, Thread

import pytest

import perfassert as pa
from perfassert.predictor.session import Session
from perfassert.system.collection import without_collections

answer = Session.answer.__code__


@pytest.fixture(autouse=True)
def collector():
    before = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if before else gc.disable)()


def test_it_pauses_in_the_block_and_goes_on_behind_it():
    with without_collections():
        assert not gc.isenabled()
        with without_collections():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_goes_on_after_an_error():
    with pytest.raises(KeyError), without_collections():
        raise KeyError
    assert gc.isenabled()


def test_who_has_turned_it_off_finds_it_off():
    gc.disable()
    with without_collections():
        pass
    assert not gc.isenabled()


def test_it_goes_on_when_the_last_thread_is_done():
    meet = Barrier(2, timeout=60)
    seen = []

    def work():
        with without_collections():
            meet.wait()  # both are inside
            meet.wait()  # this thread has seen that

    thread = Thread(target=work)
    thread.start()
    with without_collections():
        meet.wait()
    seen.append(gc.isenabled())
    meet.wait()
    thread.join()
    assert (seen, gc.isenabled()) == ([False], True)


def test_a_prediction_is_made_without_collections():
    field = pa.Field("a", "float32", shape=(1 << 20,))
    kernel = pa.Kernel.from_accesses("k", [field], loads=["a[x]"], flops=3000, dtype="float32")
    started = []

    def note(phase, _):
        frame = sys._getframe()
        while frame is not None and frame.f_code is not answer:
            frame = frame.f_back
        if frame is not None and phase == "start":
            started.append(phase)

    gc.callbacks.append(note)
    try:
        threshold = gc.get_threshold()
        gc.set_threshold(10)
        prediction = pa.predict(kernel, pa.Launch.cover((1 << 20,), 256), "a100")
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(note)
    assert prediction.time > 0
    assert not started
    assert gc.isenabled()

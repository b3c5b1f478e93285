"""A prediction is intact while it says what the predictor says, diagnosis and question included."""

import copy
import pickle
from dataclasses import replace

import pytest

import perfassert as pa
from perfassert.prediction.prediction import LineWait
from perfassert.predictor.answer import is_copy, is_intact
from perfassert.predictor.diagnose import diagnose

WAIT = LineWait("k.cu", 1, "k.cu", 2, "memory_dependency", 0.5)
LAUNCH = pa.Launch(216, 256)


def kernel(trips=64):
    g = pa.InstructionGraph.builder()
    with g.loop(trips=trips) as body:
        g.op("add", g.op("global_load"), body.carried("sum"), name="sum")
    return pa.Kernel.from_graph("total", g.build(), registers=16)


def predict(**given):
    return pa.Session().predict(kernel(**given), LAUNCH, "a100")


def diagnosed(**given):
    prediction = predict(**given)
    assert prediction.stalls
    assert prediction.timeline
    return prediction


def set_field(prediction, name, value):
    object.__setattr__(prediction, name, value)


def set_cached(prediction, name, value):
    prediction.__dict__[name] = value


def with_advice(prediction, **changes):
    first, *rest = prediction.advice
    return replace(prediction.diagnosis, advice=(replace(first, **changes), *rest))


CHANGES = {
    "question": lambda p: set_field(p, "question", "0" * 64),
    "asked": lambda p: set_field(p, "asked", predict(trips=8).asked),
    "nothing asked": lambda p: set_field(p, "asked", None),
    "stalls": lambda p: set_cached(p, "diagnosis", replace(p.diagnosis, stalls={})),
    "stalls in place": lambda p: set_field(p.diagnosis, "stalls", {"selected": 1.0}),
    "advice": lambda p: set_cached(p, "diagnosis", with_advice(p, speedup=9.0)),
    "advice in place": lambda p: set_field(p.advice[0], "speedup", 9.0),
    "hotspot in place": lambda p: p.advice[0].hotspots[0].update(speedup=9.0),
    "no advice": lambda p: set_cached(p, "diagnosis", replace(p.diagnosis, advice=())),
    "waits": lambda p: set_cached(p, "diagnosis", replace(p.diagnosis, waits=(WAIT,))),
    "diagnosis of another": lambda p: set_cached(p, "diagnosis", diagnosed(trips=8).diagnosis),
    "made-up diagnosis": lambda p: set_cached(p, "diagnosis", type(p.diagnosis)({}, ())),
    "timeline": lambda p: set_cached(p, "timeline", p.timeline[1:]),
    "timeline of another": lambda p: set_cached(p, "timeline", diagnosed(trips=8).timeline),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_is_not_intact(change):
    prediction = diagnosed()
    assert is_intact(prediction)
    CHANGES[change](prediction)
    assert not is_intact(prediction)


def test_a_question_that_was_replaced_is_not_intact():
    assert not is_intact(replace(diagnosed(), question="0" * 64))


def test_measured_volumes_have_a_diagnosis_that_is_intact():
    prediction = pa.predict(kernel(), LAUNCH, "a100", volumes={"dram_load": "8 B/thread"})
    assert (prediction.stalls, prediction.advice, prediction.timeline) == ({}, None, ())
    assert is_intact(prediction)


def test_no_diagnosis_is_made_to_check_one(monkeypatch):
    monkeypatch.setattr(diagnose, "diagnose", lambda *given: pytest.fail("nobody asked for it"))
    prediction = predict()
    assert is_intact(prediction)
    assert is_copy(pickle.loads(pickle.dumps(prediction)), prediction)
    assert not prediction.diagnosed


def test_a_diagnosis_that_somebody_has_changed_is_made_again():
    session = pa.Session()
    first, second = (session.predict(kernel(), LAUNCH, "a100") for _ in range(2))
    before = first.to_json()
    first.advice[0].hotspots[0].update(speedup=9.0)
    set_field(first.diagnosis, "stalls", {})
    assert second.to_json() == before
    assert is_intact(second)


def through_data(prediction):
    return pa.Prediction.from_dict(prediction.to_dict())


def through_pickle(prediction):
    return pickle.loads(pickle.dumps(prediction))


class TestCopy:
    @pytest.mark.parametrize("make", [through_data, through_pickle, copy.copy, copy.deepcopy])
    def test_unchanged_ones(self, make):
        prediction = diagnosed()
        read = make(prediction)
        assert not is_intact(read)
        assert is_copy(read, prediction)
        assert is_copy(read, predict())  # whose diagnosis is made, as the copy has one

    @pytest.mark.parametrize("make", [through_data, through_pickle, copy.copy, copy.deepcopy])
    @pytest.mark.parametrize("change", ["question", "stalls", "advice", "diagnosis of another"])
    def test_copies_of_changed_ones(self, make, change):
        changed = diagnosed()
        CHANGES[change](changed)
        assert not is_copy(make(changed), predict())

    @pytest.mark.parametrize("change", ["waits", "timeline"])
    def test_pickled_ones(self, change):
        changed = diagnosed()
        CHANGES[change](changed)
        assert not is_copy(through_pickle(changed), predict())

    @pytest.mark.parametrize("change", CHANGES)
    def test_a_changed_one_has_no_copies(self, change):
        prediction = diagnosed()
        read = through_pickle(prediction)
        CHANGES[change](prediction)
        assert not is_copy(read, prediction)

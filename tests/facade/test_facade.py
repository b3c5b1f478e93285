"""Tests that all entry points return the public class, whose values are shared."""

import pickle
from dataclasses import fields, replace

import pytest

import perfassert as pa
from perfassert.prediction.prediction import PredictionValues
from perfassert.predictor.answer import Answer
from perfassert.predictor.session import DEFAULT

LAUNCH = pa.Launch.cover((1024, 256), (32, 2))


def kernel():
    arrays = [pa.Field("a", shape=(256, 1024)), pa.Field("b", shape=(256, 1024))]
    return pa.Kernel.from_accesses("k", arrays, ["a[y, x]"], ["b[y, x]"])


def in_a_session():
    with pa.Session() as session:
        return session.predict(kernel(), LAUNCH, "a100")


def ranked():
    blocks = [(32, 2), (64, 1)]
    return pa.rank(blocks, "a100", kernel=kernel(), domain=(1024, 256)).entries[0][1]


def predicted():
    return pa.predict(kernel(), LAUNCH, "a100")


WAYS = {
    "predict": predicted,
    "session": in_a_session,
    "volumes": lambda: pa.predict(kernel(), LAUNCH, "a100", volumes={"dram_load": "8 B/thread"}),
    "rank": ranked,
    "whatif": lambda: pa.whatif(predicted(), registers=64).after,
    "from_dict": lambda: pa.Prediction.from_dict(predicted().to_dict()),
    "pickle": lambda: pickle.loads(pickle.dumps(predicted())),
    "replace": lambda: replace(predicted(), kernel="other"),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_a_public_prediction(way):
    prediction = WAYS[way]()
    assert type(prediction) is pa.Prediction
    assert prediction.expect(time="< 1 s") is prediction
    assert repr(prediction).startswith(f"Prediction(kernel={prediction.kernel!r}, ")


def test_values_are_shared():
    first, second = predicted(), predicted()
    assert first == second
    assert hash(first) == hash(second)
    names = [field.name for field in fields(PredictionValues)]
    assert all(getattr(first, name) is getattr(second, name) for name in names)


def test_layers_below_have_the_same_values():
    answer = DEFAULT.predict(kernel(), LAUNCH, pa.device("a100"))
    assert type(answer) is Answer
    assert answer.to_dict() == predicted().to_dict()
    assert not hasattr(answer, "expect")

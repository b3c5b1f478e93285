"""Mappings of a kernel that cannot be changed, and its encoding, which is made once."""

import copy
import pickle

import pytest

import perfassert as pa
from perfassert.kernel.content import Encoded, content_digest
from perfassert.kernel.fixed import FixedMapping


@pytest.fixture
def kernel():
    fields = {"a": pa.Field("a", shape=64), "b": pa.Field("b", shape=64)}
    return pa.Kernel.from_accesses("k", [*fields.values()], loads=["a[x]"], stores=["b[x]"])


def test_a_fixed_mapping_is_that_of_its_time():
    given = {"b": 1, "a": 2}
    fixed = FixedMapping(given)
    given["c"] = 3
    assert fixed == {"b": 1, "a": 2}
    assert [*fixed] == ["b", "a"]
    with pytest.raises(TypeError):
        fixed["a"] = 4
    for again in (copy.deepcopy(fixed), pickle.loads(pickle.dumps(fixed))):
        assert [*again.items()] == [*fixed.items()]
    assert content_digest(fixed) == content_digest({"a": 2, "b": 1})


def test_fields_of_a_kernel_cannot_be_exchanged(kernel):
    with pytest.raises(TypeError):
        kernel.fields["a"] = pa.Field("a", "float32", shape=64)
    assert pickle.loads(pickle.dumps(kernel)).fields == kernel.fields


@pytest.mark.parametrize("folders", [False, True])
def test_a_kernel_s_encoding_stands_for_it(kernel, folders):
    assert kernel.encode(folders) is kernel.encode(folders)
    known = content_digest(1, kernel, folders=folders)
    assert content_digest(1, kernel.encode(folders), folders=folders) == known


def test_latencies_by_a_function_are_asked_again():
    latency = [20]
    builder = pa.InstructionGraph.builder()
    builder.op("load")
    rules = {"load": lambda warps: pa.Latency(1, latency[0])}
    kernel = pa.Kernel.from_graph("k", builder.build(), rules)
    before = kernel.encode(folders=False).content
    latency[0] = 30
    assert kernel.encode(folders=False).content != before
    assert isinstance(kernel.encode(folders=False), Encoded)

"""Kernels, launches and buffers, as several kinds of files describe them."""

from __future__ import annotations

from collections.abc import Sequence

from perfassert.frontends.tables import ACCESSES, BUFFER, FIELD, TENSOR_MAP
from perfassert.perf_toml.descriptions import KERNEL, SOURCES
from perfassert.schemas.parts import (
    CELL,
    EXPRESSION,
    EXPRESSIONS,
    EXTENT,
    NUMBER,
    STRINGS,
    TEXT,
    Schema,
    at,
    closed,
    described,
    either,
    listed,
    named,
)

FIELD_TABLE = closed(
    FIELD,
    {
        "name": TEXT, "dtype": TEXT, "shape": EXPRESSIONS, "halo": EXPRESSIONS, "pitch": EXPRESSION,
        "alignment": EXPRESSION, "offset": EXPRESSION,
    },
    ("name", "shape"),
)  # fmt: skip
ACCESS_KEYS = {
    "name": TEXT, "fields": listed(FIELD_TABLE), "loads": STRINGS, "stores": STRINGS,
    "flops": either(NUMBER, EXPRESSION), "dtype": TEXT, "registers": EXPRESSION,
    "shared_bytes": EXPRESSION, "updates_per_thread": EXPRESSION, "ilp": EXPRESSION,
    "proxies": named(TEXT),
}  # fmt: skip
_KEYS = {
    "accesses": described(
        closed([key for key in ACCESSES if key != "name"], ACCESS_KEYS),
        "address expressions: fields, and what is loaded and stored",
    ),
    "cuda": described(TEXT, "a source file, relative to this one"),
    "ptx": described(TEXT, "a PTX file, relative to this one"),
    "cubin": described(TEXT, "a binary or a listing, relative to this file"),
    "name": described(TEXT, "the kernel in the source: demangled, mangled, or a part of it"),
    "updates_per_thread": EXPRESSION,
    "trip_counts": described(named(EXPRESSION), "file:line → iterations of a loop"),
    "proxies": described(named(TEXT), "what stands in for an index that depends on data"),
    "constants": described(named(at("constant")), "__constant__ memory by name"),
    "toolchain": described(TEXT, "the compiler's release, as in 12.4"),
    "defines": described(named(CELL), "macros"),
    "include_dirs": STRINGS,
    "options": described(STRINGS, "of the compiler"),
    "arch": described(TEXT, "as in sm_90a"),
    "parameters": described(STRINGS, "names of parameters, in order"),
}
KERNEL_PART = closed(KERNEL, _KEYS)
"""One that is laid over another."""
KERNEL_TABLE = closed(KERNEL, _KEYS, oneOf=[{"required": [source]} for source in SOURCES])
CONSTANT: Schema = {
    "anyOf": [CELL, listed(at("constant")), named(at("constant"))],
}


def argument(fill: Schema) -> Schema:
    """Of a launch: a number, a buffer, a tensor map or a structure; ``fill``: how a buffer's is
    written."""
    buffer = {
        "shape": EXPRESSIONS, "dtype": TEXT, "alignment": EXPRESSION, "offset": EXPRESSION,
        "fill": described(fill, "what it holds, as in random(0, n)"), "seed": EXPRESSION,
        "alias": described(TEXT, "the argument that points to the same memory"),
        "data": described(TEXT, "a file with what it holds: .npy, .npz:NAME, .mtx:rows"),
    }  # fmt: skip
    tensor = {
        "shape": described(EXPRESSIONS, "of the tensor, last axis contiguous"),
        "box": described(EXPRESSIONS, "what one copy takes, in elements"), "dtype": TEXT,
        "strides": described(EXPRESSIONS, "bytes, of every axis but the last"),
        "element_strides": EXPRESSIONS, "swizzle": described(EXPRESSION, "0, 32, 64 or 128 bytes"),
    }  # fmt: skip
    data = {"required": ["data"], "properties": {"data": TEXT}}
    signs = [{"required": ["shape"]}, {"required": ["alias"]}, data]
    others = {
        "if": {"type": "object", "anyOf": signs},
        "then": closed(BUFFER, buffer),
        "else": either(CELL, listed(at("constant")), named(at("argument"))),
    }
    return {
        "if": {"type": "object", "required": ["box", "shape"]},
        "then": closed(TENSOR_MAP, tensor),
        "else": others,
    }


DEFINITIONS = {"constant": CONSTANT, "argument": argument(TEXT)}
LAUNCH_KEYS = {
    "grid": described(EXTENT, "blocks"),
    "domain": described(EXTENT, "threads that are to be covered, instead of grid"),
    "block": described(EXTENT, "threads of a block"),
    "args": either(named(at("argument")), listed(at("argument"))),
    "shared_bytes": described(EXPRESSION, "dynamic shared memory"),
    "cluster": described(EXTENT, "blocks of a cluster"),
    "resident_blocks": EXPRESSION,
}


def launch(keys: Sequence[str]) -> Schema:
    """A whole one, with these keys."""
    sized = [{"required": ["grid"]}, {"required": ["domain"]}]
    return closed(keys, LAUNCH_KEYS, ("block",), oneOf=sized)

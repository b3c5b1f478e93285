"""Schemas of kernels, launches and buffers, which several kinds of files share."""

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
    annotate,
    at,
    closed_table,
    either,
    list_of,
    table_of,
)

FIELD_TABLE = closed_table(
    FIELD,
    {
        "name": TEXT, "dtype": TEXT, "shape": EXPRESSIONS, "halo": EXPRESSIONS, "pitch": EXPRESSION,
        "alignment": EXPRESSION, "offset": EXPRESSION,
    },
    ("name", "shape"),
)  # fmt: skip
ACCESS_KEYS = {
    "name": TEXT, "fields": list_of(FIELD_TABLE), "loads": STRINGS, "stores": STRINGS,
    "flops": either(NUMBER, EXPRESSION), "dtype": TEXT, "registers": EXPRESSION,
    "shared_bytes": EXPRESSION, "updates_per_thread": EXPRESSION, "ilp": EXPRESSION,
    "assume": table_of(TEXT),
}  # fmt: skip
_KEYS = {
    "accesses": annotate(
        closed_table([key for key in ACCESSES if key != "name"], ACCESS_KEYS),
        "address expressions: fields, and what is loaded and stored",
    ),
    "cuda": annotate(TEXT, "a source file, relative to this one"),
    "ptx": annotate(TEXT, "a PTX file, relative to this one"),
    "cubin": annotate(TEXT, "a binary or a listing, relative to this file"),
    "name": annotate(TEXT, "the kernel in the source: demangled, mangled, or a part of it"),
    "updates_per_thread": EXPRESSION,
    "trip_counts": annotate(table_of(EXPRESSION), "file:line → iterations of a loop"),
    "assume": annotate(table_of(TEXT), "what values that depend on data are taken to be"),
    "constants": annotate(table_of(at("constant")), "__constant__ memory by name"),
    "toolchain": annotate(TEXT, "the compiler's release, as in 12.4"),
    "defines": annotate(table_of(CELL), "macros"),
    "include_dirs": STRINGS,
    "options": annotate(STRINGS, "of the compiler"),
    "arch": annotate(TEXT, "as in sm_90a"),
    "parameters": annotate(STRINGS, "names of parameters, in order"),
}
KERNEL_PART = closed_table(KERNEL, _KEYS)
"""Schema of a kernel's table that is laid over another one."""
KERNEL_TABLE = closed_table(KERNEL, _KEYS, oneOf=[{"required": [source]} for source in SOURCES])
CONSTANT: Schema = {
    "anyOf": [CELL, list_of(at("constant")), table_of(at("constant"))],
}


def argument(fill: Schema) -> Schema:
    """Return the schema of a launch argument: a number, a buffer, a tensor map or a structure.

    ``fill`` is the schema of a buffer's contents.
    """
    buffer = {
        "shape": EXPRESSIONS, "dtype": TEXT, "alignment": EXPRESSION, "offset": EXPRESSION,
        "fill": annotate(fill, "what it holds, as in random(0, n)"), "seed": EXPRESSION,
        "alias": annotate(TEXT, "the argument that points to the same memory"),
        "data": annotate(TEXT, "a file with what it holds: .npy, .npz:NAME, .mtx:rows"),
        "pages": annotate(TEXT, "a file with the numbers of the pages that data holds"),
    }  # fmt: skip
    tensor = {
        "shape": annotate(EXPRESSIONS, "of the tensor, last axis contiguous"),
        "box": annotate(EXPRESSIONS, "what one copy takes, in elements"), "dtype": TEXT,
        "strides": annotate(EXPRESSIONS, "bytes, of every axis but the last"),
        "element_strides": EXPRESSIONS, "swizzle": annotate(EXPRESSION, "0, 32, 64 or 128 bytes"),
    }  # fmt: skip
    data = {"required": ["data"], "properties": {"data": TEXT}}
    signs = [{"required": ["shape"]}, {"required": ["alias"]}, data]
    others = {
        "if": {"type": "object", "anyOf": signs},
        "then": closed_table(BUFFER, buffer),
        "else": either(CELL, list_of(at("constant")), table_of(at("argument"))),
    }
    return {
        "if": {"type": "object", "required": ["box", "shape"]},
        "then": closed_table(TENSOR_MAP, tensor),
        "else": others,
    }


DEFINITIONS = {"constant": CONSTANT, "argument": argument(TEXT)}
LAUNCH_KEYS = {
    "grid": annotate(EXTENT, "blocks"),
    "domain": annotate(EXTENT, "threads that are to be covered, instead of grid"),
    "block": annotate(EXTENT, "threads of a block"),
    "args": either(table_of(at("argument")), list_of(at("argument"))),
    "shared_bytes": annotate(EXPRESSION, "dynamic shared memory"),
    "cluster": annotate(EXTENT, "blocks of a cluster"),
    "resident_blocks": EXPRESSION,
}


def launch(keys: Sequence[str]) -> Schema:
    """Return the schema of a complete launch with these keys."""
    sized = [{"required": ["grid"]}, {"required": ["domain"]}]
    return closed_table(keys, LAUNCH_KEYS, ("block",), oneOf=sized)

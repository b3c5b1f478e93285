"""Closed tables of what a file's Triton functions may call and name.

The tables have what Inductor and Helion print. No entry takes a Python object, opens a file or
compiles a text, unlike ``tl.constexpr``, ``tl.static_print``, ``tl.inline_asm_elementwise``,
``tl.map_elementwise`` and ``tl.core.extern_elementwise``.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import FunctionType, ModuleType

MODULES = {
    "tl": "triton.language",
    "tl_math": "triton.language.math",
    "libdevice": "triton.language.extra.libdevice",
    "triton_helpers": "perfassert.frontends.generators.triton_helpers",
}
"""Module name in generated text → module to use; PyTorch's helpers have a replacement."""
_WITHIN = {"tl.math": "tl_math"}
_MOST_ARGUMENTS = 16
_FUNCTIONS: Mapping[str, int] = {
    **dict.fromkeys(
        "abs add arange argmax argmin associative_scan assume atomic_add atomic_and atomic_cas "
        "atomic_max atomic_min atomic_or atomic_xchg atomic_xor broadcast broadcast_to cast cat "
        "cdiv ceil clamp cos cumprod cumsum debug_barrier device_assert div_rn dot dot_scaled erf "
        "exp exp2 expand_dims fdiv flip floor fma full gather interleave join load "
        "load_tensor_descriptor log log2 make_block_ptr make_tensor_descriptor max_constancy "
        "max_contiguous maximum minimum mul multiple_of num_programs permute pointer_type "
        "program_id ravel reduce reduce_or reshape rsqrt sigmoid sin softmax sort split sqrt "
        "sqrt_rn squeeze static_assert store store_tensor_descriptor sub sum topk trans umulhi "
        "unsqueeze where xor_sum zeros zeros_like".split(),
        _MOST_ARGUMENTS,
    ),
    # The third argument is a number of rounds, which are unrolled.
    **dict.fromkeys("rand randn randint rand4x randn4x randint4x".split(), 2),
    **dict.fromkeys(("max", "min"), 2),  # the third one makes the result a tuple
}
"""Function of ``tl`` → largest number of positional arguments."""
VALUES = frozenset(
    "tl.int1 tl.int8 tl.int16 tl.int32 tl.int64 tl.uint8 tl.uint16 tl.uint32 tl.uint64 tl.float16 "
    "tl.bfloat16 tl.float32 tl.float64 tl.float8e4nv tl.float8e4b8 tl.float8e4b15 tl.float8e5 "
    "tl.float8e5b16 tl.PropagateNan.ALL tl.PropagateNan.NONE".split()
)
"""Members of modules that are values, not functions."""
COMBINING = frozenset(("reduce", "associative_scan"))
"""Functions whose third argument, ``combine_fn``, is a function."""
TUPLES = frozenset(
    "broadcast split rand4x randn4x randint4x max_with_index min_with_index maximum_with_index "
    "minimum_with_index welford welford_reduce welford_combine".split()
)
"""Functions and methods whose result is a tuple, whatever their arguments are."""
BUILTINS = frozenset(("float", "len", "max", "min"))
METHODS: Mapping[str, int] = {
    **dict.fromkeys(
        "to cast trans permute reshape broadcast_to expand_dims split sum is_floating load "
        "store".split(),
        _MOST_ARGUMENTS,
    ),
    **dict.fromkeys(("max", "min"), 1),
}
"""Method of a tensor, descriptor or type → largest number of positional arguments."""
FIELDS = frozenset("dtype type shape element_ty primitive_bitwidth numel T".split())
"""Attributes of tensors and of types."""
KEYWORDS = frozenset(
    "mask other boundary_check volatile axis dim keep_dims dtype bitcast acc out_dtype allow_tf32 "
    "max_num_imprecise_acc reverse combine_fn descending can_reorder propagate_nan base shape "
    "strides block_shape order offsets value flatten warp_specialize disallow_acc_multi_buffer "
    "disable_licm fast_math lhs_k_pack rhs_k_pack".split()
)
SMALL_KEYWORDS = frozenset(("num_stages", "loop_unroll_factor"))
"""Keywords whose number states how often a compiler repeats code."""
WORDS: Mapping[str, frozenset[str]] = {
    "eviction_policy": frozenset(("", "evict_first", "evict_last")),
    "cache_modifier": frozenset(("", ".ca", ".cg", ".cs", ".cv", ".wb", ".wt")),
    "padding_option": frozenset(("", "zero", "nan")),
    "sem": frozenset(("acquire", "release", "acq_rel", "relaxed")),
    "scope": frozenset(("gpu", "cta", "sys")),
    "input_precision": frozenset(("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")),
    "fp_downcast_rounding": frozenset(("rtne", "rtz")),
}
"""Keyword → texts that it allows."""
POSITIONAL_WORDS: Mapping[str, frozenset[str]] = {
    "float": frozenset(("inf", "-inf", "nan")),
    "dot_scaled": frozenset(("e2m1", "e4m3", "e5m2", "bf16", "fp16")),
}
"""Function → texts that it allows as positional arguments."""
MESSAGES = frozenset(("device_assert", "static_assert", "device_assert_then"))
"""Functions whose second argument is any text, which becomes part of an error message."""


@dataclass(frozen=True)
class Language:
    """The tables, together with the installed Triton."""

    @cached_property
    def modules(self) -> Mapping[str, ModuleType]:
        """Modules by their names in generated text."""
        return {name: import_module(home) for name, home in MODULES.items()}

    @cached_property
    def reserved(self) -> frozenset[str]:
        """Names with a meaning in Python or Triton, which no text may bind.

        Triton looks a name up in the local variables, then in the module, then in its builtins, and
        takes the first that it finds.
        """
        from triton.compiler.code_generator import CodeGenerator

        own = (name for name in dir(builtins) if not name.startswith("_"))
        return frozenset((*own, *CodeGenerator.builtin_namespace, *MODULES, "triton"))

    def is_reserved(self, name: str) -> bool:
        """Return True for a reserved name and for any name that starts with ``__``."""
        return name in self.reserved or name.startswith("__")

    def dotted_name(self, node: ast.Attribute) -> str | None:
        """Return ``"tl.load"`` for a member of a module; None for an attribute of a value."""
        base = node.value
        while isinstance(base, ast.Attribute):
            base = base.value
        if not isinstance(base, ast.Name) or base.id not in MODULES:
            return None
        within = ast.unparse(node.value)
        return f"{_WITHIN.get(within, within)}.{node.attr}"

    def is_function(self, dotted: str) -> bool:
        """Return True for a function that a text may call.

        Functions of ``tl`` must be in the table. The other modules define functions of tensors
        only, so each public function of their own is allowed.
        """
        from triton import JITFunction

        module, _, name = dotted.rpartition(".")
        member = getattr(self.modules.get(module), name, None)
        if module == "tl":
            return name in _FUNCTIONS and member is not None
        is_own = getattr(member, "__module__", None) == MODULES.get(module)
        is_public = bool(name) and not name.startswith("_")
        return is_own and is_public and isinstance(member, (FunctionType, JITFunction))

    def most_arguments(self, name: str) -> int:
        """Return the largest number of positional arguments."""
        return _FUNCTIONS.get(name, _MOST_ARGUMENTS)

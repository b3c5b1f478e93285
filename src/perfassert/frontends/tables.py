"""Readers for the kernels and launches in a TOML file, one method for each type of value.

An integer may be an expression, ``"n // 16"``. The kind of file decides which names it may use.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Union

from perfassert.kernel.integers import integer_names
from perfassert.kernel.launch import member_key
from perfassert.toml.tables import TableReader

IntegerOrText = Union[int, str]
"""An integer, or an expression such as ``"n // block_size_x"``."""
ACCESSES = ("name", "fields", "loads", "stores", "flops", "dtype", "registers", "shared_bytes",
            "updates_per_thread", "ilp", "assume")  # fmt: skip
FIELD = ("name", "dtype", "shape", "halo", "pitch", "alignment", "offset")
LAUNCH = ("grid", "domain", "block", "args", "shared_bytes", "cluster")
BUFFER = ("shape", "dtype", "alignment", "offset", "fill", "seed", "alias", "data", "pages")
TENSOR_MAP = ("shape", "box", "dtype", "strides", "element_strides", "swizzle")


class KernelTableReader(TableReader):
    """Reader for tables of accesses, fields, launches and their arguments.

    ``known_names`` are the constants in scope. Other names that an expression uses go to ``uses``.
    """

    launch_keys: tuple[str, ...] = LAUNCH
    exclusive_keys: tuple[tuple[str, str], ...] = (("grid", "domain"),)

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.uses: dict[tuple[str, str], None] = {}
        self.known_names: Collection[str] = ()

    def expression(self, key: str, value: Any) -> IntegerOrText:
        """Return an integer or an expression; the names in the expression are noted in ``uses``."""
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            self.fail(key, f"must be an integer or an expression, not {value!r}")
        if isinstance(value, str):
            try:
                names = integer_names(value, self.error)
            except self.error as error:
                self.fail(key, str(error))
            self.uses |= {(key, n): None for n in sorted(names) if n not in self.known_names}
        return value

    def expressions(self, key: str, value: Any) -> IntegerOrText | tuple[IntegerOrText, ...]:
        if isinstance(value, list):
            return tuple(self.expression(f"{key}[{i}]", v) for i, v in enumerate(value))
        return self.expression(key, value)

    def accesses(self, key: str, value: Any) -> dict[str, Any]:
        """Return the arguments for :meth:`Kernel.from_accesses`, including those of its fields."""
        table = self.section(key, value)
        self.check_keys(key, table, ACCESSES)
        fields = table.get("fields", [])
        if not isinstance(fields, list):
            self.fail(f"{key}.fields", f"must be a list of tables, not {fields!r}")
        arguments: dict[str, Any] = {
            "fields": tuple(self.field(f"{key}.fields[{i}]", f) for i, f in enumerate(fields))
        }
        for name in set(table) - {"fields"}:
            where, entry = f"{key}.{name}", table[name]
            if name in ("name", "dtype"):
                arguments[name] = self.string(where, entry)
            elif name in ("loads", "stores"):
                arguments[name] = self.strings(where, entry)
            elif name == "assume":
                arguments[name] = self.mapping(where, entry)
            elif name == "flops" and isinstance(entry, float):
                arguments[name] = entry
            else:
                arguments[name] = self.expression(where, entry)
        return arguments

    def field(self, key: str, value: Any) -> dict[str, Any]:
        table = self.section(key, value)
        self.check_keys(key, table, FIELD)
        for needed in ("name", "shape"):
            if needed not in table:
                self.fail(f"{key}.{needed}", "missing")
        read = {"name": self.string, "dtype": self.string}
        return {k: read.get(k, self.expressions)(f"{key}.{k}", v) for k, v in table.items()}

    def launch(self, key: str, value: Any) -> dict[str, Any]:
        table = self.section(key, value)
        self.check_keys(key, table, self.launch_keys)
        for one, other in self.exclusive_keys:
            if one in table and other in table:
                self.fail(f"{key}.{other}", f"does not go with {one}; give one of them")
        arguments: dict[str, Any] = {
            k: self.expressions(f"{key}.{k}", v) for k, v in table.items() if k != "args"
        }
        if "args" in table:
            arguments["args"] = self.args(f"{key}.args", table["args"])
        return arguments

    def args(self, key: str, value: Any) -> dict[str, Any] | tuple[Any, ...]:
        if isinstance(value, list):
            return tuple(self.argument(f"{key}[{i}]", v) for i, v in enumerate(value))
        return {k: self.argument(f"{key}.{k}", v) for k, v in self.section(key, value).items()}

    def argument(self, key: str, value: Any) -> Any:
        """Read an argument: a number, an expression, ``"null"``, or the table of a larger value."""
        if not isinstance(value, dict):
            return self.constant(key, value)
        if of_a_tensor_map(value):
            return self.tensor_map(key, self._map(key, value))
        if not of_a_buffer(value):
            if not value or set(value) < set(BUFFER):
                self.fail(f"{key}.shape", "missing; a pointer needs the shape of its buffer")
            return {member_key(k): self.argument(f"{key}.{k}", v) for k, v in value.items()}
        self.check_keys(key, value, BUFFER)
        read = {"dtype": self.string, "fill": self.string, "alias": self.string,
                "data": self.file, "pages": self.file, "shape": self.expressions}  # fmt: skip
        return self.buffer(
            key, {k: read.get(k, self.expression)(f"{key}.{k}", v) for k, v in value.items()}
        )

    def buffer(self, key: str, given: dict[str, Any]) -> Any:
        """Return the value of a buffer's table: here the arguments of :class:`Buffer`."""
        return given

    def _map(self, key: str, value: Mapping[str, Any]) -> dict[str, Any]:
        self.check_keys(key, value, TENSOR_MAP)
        if "shape" not in value:
            self.fail(f"{key}.shape", "missing; a tensor map says the shape of its tensor")
        read = {"dtype": self.string}
        return {k: read.get(k, self.expressions)(f"{key}.{k}", v) for k, v in value.items()}

    def tensor_map(self, key: str, given: dict[str, Any]) -> Any:
        """Return the value of a tensor map's table: here the arguments of :class:`TensorMap`."""
        return given

    def file(self, key: str, value: Any) -> str:
        """Return a path relative to the file being read; a part of the file may follow a colon."""
        return str(self.path.parent / self.string(key, value))

    def constant(self, key: str, value: Any) -> Any:
        """Read a number, an expression, ``"null"``, or a list or table (by member or byte)."""
        if isinstance(value, dict):
            return {member_key(k): self.constant(f"{key}.{k}", v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.constant(f"{key}[{i}]", v) for i, v in enumerate(value)]
        if value == "null":
            return None
        return value if isinstance(value, float) else self.expression(key, value)


def of_a_buffer(table: Mapping[Any, Any]) -> bool:
    """Return True if a table describes a buffer; a structure may have members of these names."""
    return "shape" in table or "alias" in table or isinstance(table.get("data"), str)


def of_a_tensor_map(table: Mapping[Any, Any]) -> bool:
    """Return True if a table describes a tensor map: it has a box, and a shape or only its keys."""
    return "box" in table and ("shape" in table or set(table) <= set(TENSOR_MAP))

"""Plug-ins: the hooks, and the manager that finds who implements them.

A plug-in is a module or an object whose functions are marked with :data:`hookimpl`. It is found by
its entry point in the group ``perfassert``, or made known by :func:`register`. Entry points are
loaded when something is first asked for that perfassert itself does not have.

What cannot be used is left out with one :class:`~perfassert.errors.PluginWarning` that names the
plug-in; asking for what it should have brought is an error that names it again.
``PERFASSERT_NO_PLUGINS=name,name`` leaves plug-ins out, ``*`` all of them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

import pluggy

from perfassert.errors import PerfAssertError, PluginError, PluginWarning, close_matches

GROUP = "perfassert"
BLOCKED = "PERFASSERT_NO_PLUGINS"
hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)
T = TypeVar("T")


class Hooks:
    """What a plug-in may implement; each hook takes nothing and gives what the plug-in adds."""

    @hookspec
    def perfassert_devices(self) -> Iterable[str | os.PathLike[str]]:  # type: ignore[empty-body]
        """Device files (TOML), or folders of them."""

    @hookspec
    def perfassert_metrics(self) -> Iterable[Any]:  # type: ignore[empty-body]
        """:class:`~perfassert.expect.metrics.Metric` objects, for ``expect(name=...)``."""

    @hookspec
    def perfassert_optimizers(self) -> Iterable[Any]:  # type: ignore[empty-body]
        """Objects as :class:`~perfassert.engines.advisor.optimizer.Optimizer`, for the advisor."""

    @hookspec
    def perfassert_frontends(self) -> Mapping[str, Callable[..., Any]]:  # type: ignore[empty-body]
        """Suffix (``".ir"``) → function that makes a :class:`~perfassert.Kernel` from a path and
        the kernel's name, which is None where the file has only one."""

    @hookspec
    def perfassert_report_formats(self) -> Mapping[str, Callable[..., str]]:  # type: ignore[empty-body]
        """Name → function that makes a text of a list of predictions, each as ``to_dict()``."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that cannot be used: whose it is, in which hook (``""``: any), and why."""

    plugin: str
    hook: str
    reason: str

    def __str__(self) -> str:
        where = f", {self.hook}" if self.hook else ""
        name = self.plugin.partition(" ")[0]
        return (
            f"plug-in {self.plugin}{where}: {self.reason}; mend or uninstall it, or leave it out "
            f"with {BLOCKED}={name}"
        )


@dataclass(frozen=True)
class Found(Generic[T]):
    """What all plug-ins add to one hook, by folded name, with the plug-in that adds it."""

    hook: str
    by_name: Mapping[str, tuple[str, T]]
    clashes: Mapping[str, str]
    problems: tuple[Problem, ...]

    def get(self, name: str) -> T | None:
        """What has that name, or None; raises :class:`PluginError` where two plug-ins claim it."""
        key = name.casefold()
        if key in self.clashes:
            raise PluginError(self.clashes[key])
        return self.by_name[key][1] if key in self.by_name else None

    def values(self) -> tuple[T, ...]:
        """All of it, in the order of plug-ins' names."""
        return tuple(value for _, value in self.by_name.values())

    def note(self) -> str:
        """For an error about an unknown name: the plug-ins that may have been meant to bring it."""
        return "".join(f"\nnot in use: {problem}" for problem in self.problems)


@dataclass
class _State:
    manager: pluggy.PluginManager
    problems: list[Problem] = field(default_factory=list)
    found: dict[str, Found[Any]] = field(default_factory=dict)
    loaded: bool = False


def _new() -> _State:
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(Hooks)
    return _State(manager)


_state = _new()


def register(plugin: object, name: str) -> None:
    """Make a plug-in known without installing it, as a ``conftest.py`` may want to.

    Raises :class:`~perfassert.errors.PluginError` where it implements no hook, one that does not
    exist, or where another plug-in has its name.
    """
    if reason := _add(plugin, name):
        raise PluginError(f"plug-in {name}: {reason}")
    _state.found.clear()


def unregister(name: str) -> None:
    """The inverse of :func:`register`; nothing happens where no plug-in has that name."""
    if _state.manager.get_plugin(name) is not None:
        _state.manager.unregister(name=name)
        _state.found.clear()


def is_registered(plugin: object) -> bool:
    """Whether a plug-in is in use, by its entry point or by :func:`register`."""
    _load()
    return bool(_state.manager.is_registered(plugin))


def names() -> tuple[str, ...]:
    """The plug-ins in use, sorted."""
    _load()
    return tuple(sorted(name for name, _ in _state.manager.list_name_plugin()))


Read = Callable[[str, Any], Iterable[tuple[str, T]]]
"""Plug-in and what its hook gave → names and values; raises where it is not what it should be."""


def gather(hook: str, read: Read[T], taken: Iterable[str] = ()) -> Found[T]:
    """What plug-ins add to ``hook``; ``taken``: perfassert's own names.

    Kept until a plug-in comes or goes.
    """
    if hook not in _state.found:
        _load()
        found = _gathered(hook, read, {name.casefold() for name in taken})
        _state.found[hook] = found
        for problem in found.problems:
            if problem.hook:  # what concerns all hooks was said when it was loaded
                _warn(problem)
    return _state.found[hook]


def _gathered(hook: str, read: Read[T], taken: set[str]) -> Found[T]:
    implementations = getattr(_state.manager.hook, hook).get_hookimpls()
    problems = [p for p in _state.problems if p.hook in ("", hook)]
    claims: dict[str, list[tuple[str, str, T]]] = {}
    for one in sorted(implementations, key=lambda i: i.plugin_name):
        name = one.plugin_name
        try:
            for own, value in list(read(name, one.function())):
                claims.setdefault(own.casefold(), []).append((name, own, value))
        except Exception as error:
            problems.append(Problem(name, hook, _reason(error)))
    clashes: dict[str, str] = {}
    for key, made in claims.items():
        shown = made[0][1]
        if key in taken:
            problems += [Problem(n, hook, f"perfassert itself has {o!r}") for n, o, _ in made]
        elif len(made) > 1:
            whose = " and ".join(dict.fromkeys(n for n, _, _ in made))
            clashes[key] = (
                f"{shown!r} is claimed more than once in {hook}, by plug-in {whose}; uninstall "
                f"one, or leave it out with {BLOCKED}={made[0][0]}"
            )
            problems += [Problem(n, hook, f"{o!r} is claimed more than once") for n, o, _ in made]
    return Found(
        hook,
        {k: (m[0][0], m[0][2]) for k, m in claims.items() if len(m) == 1 and k not in taken},
        clashes,
        tuple(dict.fromkeys(problems)),
    )


def _load() -> None:
    """Entry points, once; one that cannot be loaded does not keep others from being."""
    if _state.loaded:
        return
    _state.loaded = True
    unwanted = [name.strip() for name in os.environ.get(BLOCKED, "").split(",")]
    if "*" in unwanted:
        return
    seen: set[tuple[str, str]] = set()  # a distribution may lie on the path twice
    for entry in sorted(entry_points(group=GROUP), key=lambda e: (e.name, e.value)):
        if entry.name in unwanted or (entry.name, entry.value) in seen:
            continue
        seen.add((entry.name, entry.value))
        try:
            reason = _add(entry.load(), entry.name)
        except Exception as error:
            reason = f"cannot be loaded: {_reason(error)}"
        if reason:
            _state.problems.append(Problem(_whose(entry), "", reason))
    for problem in _state.problems:
        _warn(problem)


def _whose(entry: EntryPoint) -> str:
    return f"{entry.name} (of {entry.dist.name})" if entry.dist is not None else entry.name


def _warn(problem: Problem) -> None:
    warnings.warn(str(problem), PluginWarning, stacklevel=2)


def _add(plugin: object, name: str) -> str:
    """Register; what speaks against it, or ``""``."""
    manager = _state.manager
    if manager.get_plugin(name) is not None:
        return "another plug-in has that name"
    try:
        manager.register(plugin, name)
    except (ValueError, pluggy.PluginValidationError) as error:
        if manager.get_plugin(name) is not None:
            manager.unregister(name=name)
        return str(error)
    callers = manager.get_hookcallers(plugin) or []
    known = [n for n in vars(Hooks) if n.startswith("perfassert_")]
    unknown = [caller.name for caller in callers if not caller.has_spec()]
    if callers and not unknown:
        return ""
    manager.unregister(name=name)
    if not callers:
        return "implements no hook; mark its functions with @perfassert.plugins.hookimpl"
    return f"there is no hook {unknown[0]}{close_matches(unknown[0], known)}"


def _reason(error: Exception) -> str:
    if isinstance(error, PerfAssertError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def guarded(plugin: str, what: str, function: Callable[..., T]) -> Callable[..., T]:
    """``function`` of a plug-in; what it raises becomes a :class:`PluginError` that names both."""

    def call(*args: Any, **kwargs: Any) -> T:
        try:
            return function(*args, **kwargs)
        except PerfAssertError:
            raise
        except Exception as error:
            problem = Problem(plugin, "", f"{what} failed: {_reason(error)}")
            raise PluginError(str(problem)) from error

    return call

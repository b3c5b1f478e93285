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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    """Hooks that a plug-in may implement; each takes no argument and returns what the plug-in
    adds."""

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
    def perfassert_generators(self) -> Mapping[str, Callable[..., Any]]:  # type: ignore[empty-body]
        """Package (``"tool"``) → function that makes a :class:`~perfassert.Kernel` from an object
        of one of its types and a launch, for ``perf(object, launch)``."""

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
            f"plug-in {self.plugin}{where}: {self.reason}; fix or uninstall it, or leave it out "
            f"with {BLOCKED}={name}"
        )


@dataclass(frozen=True)
class Contributions(Generic[T]):
    """Contributions of all plug-ins to one hook, by case-folded name, with the plug-in's name."""

    hook: str
    by_name: Mapping[str, tuple[str, T]]
    clashes: Mapping[str, str]
    problems: tuple[Problem, ...]

    def get(self, name: str) -> T | None:
        """Return the contribution of that name, or None; raise :class:`PluginError` if two claim
        it."""
        key = name.casefold()
        if key in self.clashes:
            raise PluginError(self.clashes[key])
        return self.by_name[key][1] if key in self.by_name else None

    def values(self) -> tuple[T, ...]:
        """Return the contributions of all plug-ins, in the order of their names."""
        return tuple(value for _, value in self.by_name.values())

    def note(self) -> str:
        """Return a note for errors about unknown names: the plug-ins that are not in use, and
        why."""
        return "".join(f"\nnot in use: {problem}" for problem in self.problems)


HookReader = Callable[[str, Any], Iterable[tuple[str, T]]]
"""Plug-in and what its hook gave → names and values; raises where it is not what it should be."""


class Plugins:
    """Plug-ins in use, by entry point and by :meth:`register`, and what they add."""

    def __init__(self) -> None:
        self._manager = pluggy.PluginManager(GROUP)
        self._manager.add_hookspecs(Hooks)
        self._problems: list[Problem] = []
        self._contributions: dict[str, Contributions[Any]] = {}
        self._loaded = False

    def register(self, plugin: object, name: str) -> None:
        """See :func:`register`."""
        if reason := _add(self._manager, plugin, name):
            raise PluginError(f"plug-in {name}: {reason}")
        self._contributions.clear()

    def unregister(self, name: str) -> None:
        """See :func:`unregister`."""
        if self._manager.get_plugin(name) is not None:
            self._manager.unregister(name=name)
            self._contributions.clear()

    def is_registered(self, plugin: object) -> bool:
        """See :func:`is_registered`."""
        self._load()
        return bool(self._manager.is_registered(plugin))

    def names(self) -> tuple[str, ...]:
        """The plug-ins in use, sorted."""
        self._load()
        return tuple(sorted(name for name, _ in self._manager.list_name_plugin()))

    def gather(
        self, hook: str, read: HookReader[T], reserved: Iterable[str] = ()
    ) -> Contributions[T]:
        """See :func:`gather`."""
        if hook not in self._contributions:
            self._load()
            contributions = self._read_hook(hook, read, {name.casefold() for name in reserved})
            self._contributions[hook] = contributions
            for problem in contributions.problems:
                if problem.hook:  # what concerns all hooks was said when it was loaded
                    _warn(problem)
        return self._contributions[hook]

    def _read_hook(self, hook: str, read: HookReader[T], reserved: set[str]) -> Contributions[T]:
        implementations = getattr(self._manager.hook, hook).get_hookimpls()
        problems = [p for p in self._problems if p.hook in ("", hook)]
        claims: dict[str, list[_Claim[T]]] = {}
        for implementation in sorted(implementations, key=lambda i: i.plugin_name):
            try:
                for name, value in list(
                    read(implementation.plugin_name, implementation.function())
                ):
                    claim = _Claim(implementation.plugin_name, name, value)
                    claims.setdefault(name.casefold(), []).append(claim)
            except Exception as error:
                problems.append(Problem(implementation.plugin_name, hook, _reason(error)))
        clashes: dict[str, str] = {}
        for key, same_name in claims.items():
            if key in reserved:
                problems += [
                    Problem(c.plugin, hook, f"perfassert itself has {c.name!r}") for c in same_name
                ]
            elif len(same_name) > 1:
                clashes[key] = _clash_message(hook, same_name)
                problems += [
                    Problem(c.plugin, hook, f"{c.name!r} is claimed more than once")
                    for c in same_name
                ]
        return Contributions(
            hook,
            {
                k: (same_name[0].plugin, same_name[0].value)
                for k, same_name in claims.items()
                if len(same_name) == 1 and k not in reserved
            },
            clashes,
            tuple(dict.fromkeys(problems)),
        )

    def _load(self) -> None:
        """Entry points, once; one that cannot be loaded does not keep others from being."""
        if self._loaded:
            return
        self._loaded = True
        unwanted = [name.strip() for name in os.environ.get(BLOCKED, "").split(",")]
        if "*" in unwanted:
            return
        seen: set[tuple[str, str]] = set()  # a distribution may lie on the path twice
        for entry in sorted(entry_points(group=GROUP), key=lambda e: (e.name, e.value)):
            if entry.name in unwanted or (entry.name, entry.value) in seen:
                continue
            seen.add((entry.name, entry.value))
            try:
                reason = _add(self._manager, entry.load(), entry.name)
            except Exception as error:
                reason = f"cannot be loaded: {_reason(error)}"
            if reason:
                self._problems.append(Problem(_entry_with_distribution(entry), "", reason))
        for problem in self._problems:
            _warn(problem)


@dataclass(frozen=True, slots=True)
class _Claim(Generic[T]):
    """A plug-in says that it has something of that name."""

    plugin: str
    name: str
    value: T


def _clash_message(hook: str, claims: Sequence[_Claim[Any]]) -> str:
    whose = " and ".join(dict.fromkeys(claim.plugin for claim in claims))
    return (
        f"{claims[0].name!r} is claimed more than once in {hook}, by plug-in {whose}; uninstall "
        f"one, or leave it out with {BLOCKED}={claims[0].plugin}"
    )


PLUGINS = Plugins()
"""Plug-ins of this process, which the functions below and every look-up of a name use."""


def register(plugin: object, name: str) -> None:
    """Make a plug-in known without installing it, as a ``conftest.py`` may want to.

    Raises :class:`~perfassert.errors.PluginError` where it implements no hook, one that does not
    exist, or where another plug-in has its name.
    """
    PLUGINS.register(plugin, name)


def unregister(name: str) -> None:
    """The inverse of :func:`register`; nothing happens where no plug-in has that name."""
    PLUGINS.unregister(name)


def is_registered(plugin: object) -> bool:
    """Return True if a plug-in is in use, by its entry point or by :func:`register`."""
    return PLUGINS.is_registered(plugin)


def names() -> tuple[str, ...]:
    """The plug-ins in use, sorted."""
    return PLUGINS.names()


def gather(hook: str, read: HookReader[T], reserved: Iterable[str] = ()) -> Contributions[T]:
    """Return the contributions of all plug-ins to ``hook``.

    ``reserved`` holds perfassert's own names. The result is kept until a plug-in comes or goes.
    """
    return PLUGINS.gather(hook, read, reserved)


def _entry_with_distribution(entry: EntryPoint) -> str:
    return f"{entry.name} (of {entry.dist.name})" if entry.dist is not None else entry.name


def _warn(problem: Problem) -> None:
    warnings.warn(str(problem), PluginWarning, stacklevel=2)


def _add(manager: pluggy.PluginManager, plugin: object, name: str) -> str:
    """Register; what speaks against it, or ``""``."""
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


def wrap_errors(plugin: str, subject: str, function: Callable[..., T]) -> Callable[..., T]:
    """Wrap ``function`` of a plug-in: what it raises becomes a :class:`PluginError`.

    The message names the plug-in and ``subject``, the part of it that failed.
    """

    def call(*args: Any, **kwargs: Any) -> T:
        try:
            return function(*args, **kwargs)
        except PerfAssertError:
            raise
        except Exception as error:
            problem = Problem(plugin, "", f"{subject} failed: {_reason(error)}")
            raise PluginError(str(problem)) from error

    return call

"""``perf.no_regression``: the predictions of one test beside their baselines."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from perfassert.baseline.compare import (
    BaselineComparison,
    Verdict,
    compare,
    differences,
    failure_text,
    fewer_threads,
    foreign,
    other_compilers,
    other_kernel,
    other_launches,
    other_model,
    same_code,
)
from perfassert.baseline.components import Value
from perfassert.baseline.entry import (
    DEFAULT_NAME,
    BaselineKey,
    Entry,
    entry_of,
    unit_of,
)
from perfassert.baseline.files import file_of, read
from perfassert.baseline.identity import launch_places
from perfassert.baseline.tolerance import Tolerance, tolerances
from perfassert.baseline.why import explain_rise
from perfassert.errors import BaselineError, ExpectationError, ExpectationFailed, close_matches
from perfassert.facade.prediction import Prediction
from perfassert.pytest_plugin.baseline_options import Mode
from perfassert.pytest_plugin.guesses import GUESSED
from perfassert.pytest_plugin.ranking_baselines import (
    find_changes,
    other_candidates,
    ranking_entry,
)
from perfassert.ranking.ranking import Ranking
from perfassert.report.trust import confidence

BASE = ("time", "updates", "bounds", "dram_load", "dram_store", "l2_load", "l2_store")
"""Figures of a baseline that reports draw behind those of the prediction."""
_OF_MODEL = (
    "pytest --perf-update=model accepts every baseline of another version of the model whose "
    "code is unchanged; run it before the code changes, so that a later change shows"
)
_NAMED = 3  # changes of a ranking in the headline
Files = dict[Path, "dict[BaselineKey, Entry] | BaselineError"]


class TestBaselines:
    """The baselines that one test asks for; ``records`` is what the report needs to know.

    ``files`` are shared by all tests of the process: nothing is written before the session ends.
    """

    __test__ = False

    def __init__(self, node: pytest.Item, device: str, mode: Mode, files: Files) -> None:
        self.records: list[dict[str, Any]] = []
        self._node = node
        self._device = device
        self._mode = mode
        self._files = files
        self._path = file_of(node.path, mode.name)
        self._asked: set[str] = set()
        self._label = ""
        self._older: BaselineKey | None = None
        self._predictions: tuple[Prediction, ...] = ()

    def check(
        self,
        p: Prediction,
        tolerance: str | None,
        name: str | None,
        metrics: Mapping[str, object],
        label: str = "",
        was: str | None = None,
    ) -> None:
        """Compare or, if that is what was asked for, note what is to be written.

        ``label``: what the prediction is called in reports. ``was``: the name that its kernel had
        when the baseline was written.
        """
        __tracebackhide__ = True
        wanted, named = tolerances(tolerance, metrics)
        if was is not None and (not isinstance(was, str) or not was):
            raise ExpectationError(f"no_regression(): was must be a kernel's name, not {was!r}")
        key, entries = self._key(p, name), self._entries()
        self._begin(label, p)
        old, new = self._baseline(key, entries, p.kernel), entry_of(p)
        if old is None:
            self._missing(key, new, entries)
            return
        why, renamed = foreign(key, old, new), ""
        if not why and self._mode.strict:
            why = other_compilers(old, new) or other_launches(old, new)
        if not why and (why := other_kernel(old, new, was)):
            renamed = f"if the kernel was renamed, say was={old.get('kernel', '')!r}; "
        model = other_model(key, old, new)
        moved_model = model and self._mode.model and same_code(old, new)
        if why or self._mode.all or moved_model:
            self._replace_baseline(key, old, new, wanted, why, renamed)
            return
        try:
            comparison = compare(key, old, new, wanted, named)
        except BaselineError as error:
            raise BaselineError(f"{error}; {self._accept('--perf-update')}") from None
        regressed, improved = comparison.of(Verdict.REGRESSED), comparison.of(Verdict.IMPROVED)
        status = "regressed" if regressed else "improved" if improved else "compared"
        if model and same_code(old, new):
            why = "the kernel is the same: what has changed is what the model says of it"
        else:
            why = explain_rise(old, new, p) if regressed else ""
        asked = fewer_threads(old, new) if status == "improved" else ""
        moved = (*(regressed or improved), *filter(None, [asked]))
        self._note(key, status, old, new, moved, why, model)
        accept = f"accept it: {self._command('--perf-update')}"
        if regressed:
            text = failure_text(comparison, why, f"if this is intended, {accept}")
            if model:
                text = f"the baseline is of another model: {model}\n\n{text}\n\n{_OF_MODEL}"
            raise ExpectationFailed(text)
        if improved and self._mode.ratchet:
            why = confidence(p) if self._guessed else ""
            if self._guessed:
                accept = "better by a guess; give what is missing before you accept it"
            raise ExpectationFailed(failure_text(comparison, why, f"--perf-ratchet: {accept}"))

    def check_ranking(
        self, ranking: Ranking, tolerance: str | None, name: str | None, label: str = ""
    ) -> None:
        """Compare the best, the order and the shares of a ranking, as :meth:`check` does."""
        __tracebackhide__ = True
        if tolerance is None:
            raise ExpectationError("no_regression() compares nothing: give a tolerance")
        key, entries = self._key(ranking.entries[0][1], name), self._entries()
        self._begin(label, *(p for _, p in ranking.entries))
        old, new = entries.get(key), ranking_entry(ranking)
        if old is None:
            self._missing(key, new, entries)
            return
        why = foreign(key, old, new) or other_candidates(old, new)
        model = other_model(key, old, new)
        if why or self._mode.all or (model and self._mode.model and same_code(old, new)):
            self._replace_baseline(key, old, new, {}, why, "")
            return
        worse, better = find_changes(old, ranking, tolerance)
        status = "regressed" if worse else "improved" if better else "compared"
        self._note(key, status, old, new, (*worse, *better), "; ".join(worse), model)
        accept = f"accept it: {self._command('--perf-update')}"
        if worse or (better and self._mode.ratchet):
            headline = "; ".join((worse or better)[:_NAMED])
            hint = f"if this is intended, {accept}" if worse else f"--perf-ratchet: {accept}"
            of_model = f"\n\nthe baseline is of another model: {model}" if model else ""
            raise ExpectationFailed(
                f"{headline} (on {key.device}){of_model}\n\n{ranking.table()}\n\n{hint}"
            )

    def _begin(self, label: str, *predictions: Prediction) -> None:
        """Begin the check of one baseline, which records are about from now on."""
        self._label, self._older, self._predictions = label, None, predictions

    @property
    def _guessed(self) -> bool:
        return any(p.confidence == GUESSED for p in self._predictions)

    @property
    def failures(self) -> list[str]:
        """Return a line for each baseline whose check has failed, with its test."""
        words = {status: f"its baseline is {status}" for status in ("missing", "incomparable")}
        words["regressed"] = "it regressed"
        if self._mode.ratchet:
            words["improved"] = "it is better than its baseline (--perf-ratchet)"
        return [
            f"{record['key'][0]}: {words[record['status']]}"
            for record in self.records
            if record["status"] in words
        ]

    def _key(self, p: Prediction, name: str | None) -> BaselineKey:
        if not isinstance(p, Prediction):
            raise ExpectationError(f"no_regression() needs a prediction or a ranking, not {p!r}")
        if p.device != self._device:
            raise ExpectationError(
                f"no_regression(): this test runs for {self._device}, and the prediction is for "
                f"{p.device}; add that device with @pytest.mark.perf(devices=[...])"
            )
        if name is not None and (not isinstance(name, str) or not name):
            raise ExpectationError(f"no_regression(): name must be a text, not {name!r}")
        chosen = DEFAULT_NAME if name is None else name
        if chosen in self._asked:
            second = "without a name" if name is None else f"named {name!r}"
            raise ExpectationError(
                f"no_regression() is called twice {second} in this test; tell the predictions "
                "apart with name="
            )
        self._asked.add(chosen)
        test = _without_device(_chain(self._node), self._device)
        return BaselineKey(test, chosen, p.device)

    def _entries(self) -> Mapping[BaselineKey, Entry]:
        if self._path not in self._files:
            try:
                self._files[self._path] = read(self._path)
            except BaselineError as error:
                self._files[self._path] = error
        entries = self._files[self._path]
        if isinstance(entries, BaselineError):
            raise BaselineError(str(entries))
        return entries

    def _baseline(
        self, key: BaselineKey, entries: Mapping[BaselineKey, Entry], kernel: str
    ) -> Entry | None:
        """The entry of ``key``, else the one that an older version kept for the same test."""
        if key in entries:
            return entries[key]
        for name in getattr(self._node, "older_names", ()):
            older = key._replace(test=_without_device(name, self._device))
            if older in entries and entries[older].get("kernel") == kernel:
                self._older = older
                return entries[older]
        return None

    def _missing(self, key: BaselineKey, new: Entry, entries: Mapping[BaselineKey, Entry]) -> None:
        __tracebackhide__ = True
        if self._mode.all or self._mode.new:
            self._note(key, "new", None, new)
            return
        self._note(key, "missing", None, new)
        near = close_matches(key.test, {k.test for k in entries} - {key.test})
        hint = f" ({near.removeprefix('; ')})" if near else ""
        raise BaselineError(
            f"{self._path} has no baseline for {key}{hint}; {self._accept('--perf-update=new')}"
        )

    def _replace_baseline(
        self,
        key: BaselineKey,
        old: Entry,
        new: Entry,
        wanted: Mapping[str, Tolerance],
        why: str,
        hint: str,
    ) -> None:
        """The baseline will be written anew, or has to be; ``hint``: what else may be done."""
        if why and not self._mode.all:
            self._note(key, "incomparable", old, new)
            raise BaselineError(
                f"the baseline of {key} is incomparable: {why}; {hint}"
                f"{self._accept('--perf-update')}"
            )
        moved: tuple[object, ...] = (why,)
        if not why:
            moved = _changed_rows(key, old, new, wanted)
        if self._older is not None:
            moved = (f"kept as {self._older.test} so far", *moved)
        same = old == new and self._older is None
        self._note(key, "compared" if same else "changed", old, new, moved)

    def _note(
        self,
        key: BaselineKey,
        status: str,
        old: Entry | None,
        new: Entry,
        moved: tuple[object, ...] = (),
        cause: str = "",
        model: str = "",
    ) -> None:
        """``moved``: what the terminal is to say about it; ``cause``: why it has regressed;
        ``model``: which other version of the model made the baseline."""
        record: dict[str, Any] = {"file": str(self._path), "key": list(key), "status": status}
        record |= {"moved": "; ".join(map(str, moved)), "label": self._label}
        launched = other_launches(old, new) if old else ""
        if launched and (origin := self._predictions[0].origin):
            places = launch_places(origin[0], origin[2])
            launched += f" ({places})" if places else ""
        record |= {"guessed": self._guessed, "model": model, "launched": launched}
        if old is not None and old != new:
            record["beside"] = {"cause": cause, **_evidence(old, new)}
        if self._older is not None:
            record["older"] = list(self._older)
        if self._mode.writes or self._mode.diff:
            record |= {"old": old, "new": new}
        self.records.append(record)

    def _accept(self, option: str) -> str:
        return f"write it: {self._command(option)}"

    def _command(self, option: str) -> str:
        config = self._node.config
        module = relative(self._node.path, config.invocation_params.dir)
        test = f"{module}::{_chain(self._node)}"
        devices = config.getoption("--perf-device") and ["--perf-device", self._device]
        return shlex.join(["pytest", option, *self._mode.words, *(devices or ()), test])


def _evidence(old: Entry, new: Entry) -> dict[str, Any]:
    """Return the figures of a baseline and the differences, for the reports."""
    changes = [
        {"component": c.name, "unit": unit_of(c.path), "baseline": _plain(c.before),
         "predicted": _plain(c.after)}
        for c in differences(old, new)
    ]  # fmt: skip
    return {"base": {key: old[key] for key in BASE if key in old}, "differences": changes}


def _plain(value: Value) -> Value:
    """An extent as text."""
    return "×".join(map(str, value)) if isinstance(value, tuple) else value


def relative(path: Path, folder: Path) -> str:
    """Return the path as typed in that folder."""
    try:
        return os.path.relpath(path, folder)
    except ValueError:  # another drive
        return str(path)


def _changed_rows(
    key: BaselineKey, old: Entry, new: Entry, wanted: Mapping[str, Tolerance]
) -> tuple[object, ...]:
    """The compared metrics that are not what they were, else the components."""
    try:
        comparison: BaselineComparison = compare(key, old, new, wanted)
    except (BaselineError, ExpectationError):
        return ()
    rows = tuple(row for row in comparison.rows if row.verdict is not Verdict.SAME)
    return rows or comparison.components[:3]


def _chain(node: pytest.Item) -> str:
    """The test with its classes: what follows the module in its node ID."""
    names: list[str] = []
    for above in node.listchain():
        names = [] if isinstance(above, pytest.File) else [*names, above.name]
    return "::".join(names)


def _without_device(test: str, device: str) -> str:
    """``test_copy[A100-SXM4-40GB-16]`` → ``test_copy[16]``."""
    name, bracket, rest = test.partition("[")
    if not bracket:
        return name
    ids = f"-{rest.removesuffix(']')}-"
    others = ids.replace(f"-{device}-", "-", 1)[1:-1]
    return f"{name}[{others}]" if others else name

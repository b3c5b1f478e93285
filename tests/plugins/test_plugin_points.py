"""The five hooks, and what becomes of plug-ins that clash or fail."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import perfassert as pa
from perfassert import plugins
from perfassert.cli.main import main
from perfassert.engines.advisor.case import Match
from perfassert.engines.advisor.change import Change
from perfassert.engines.advisor.optimizer import STALL_ELIMINATION
from perfassert.engines.advisor.rewrites import HalveCosts, Rewrite, Unroll
from perfassert.expect.condition import OPTIMIZERS
from perfassert.expect.metrics import METRICS, Metric
from perfassert.predictor.rewrites.cost import rewrite_graph
from perfassert.report.formats import report_format

ROOT = Path(__file__).parents[2]
N = 1 << 20
LAUNCH = pa.Launch.cover(N, 256)


def copy_kernel(name="copy"):
    fields = [pa.Field("a", "float32", (N,)), pa.Field("b", "float32", (N,))]
    return pa.Kernel.from_accesses(name, fields, ["a[x]"], ["b[x]"])


def chain():
    graph = pa.InstructionGraph.builder()
    with graph.loop(trips=64) as body:
        graph.op("fp32", body.carried("sum"), name="sum")
    return pa.predict(pa.Kernel.from_graph("chain", graph.build()), pa.Launch(64, 64), "a100")


@pytest.fixture
def add():
    """Registers plug-ins with ``hook=function`` and takes them away again."""
    names = []

    def register(name, **hooks):
        marked = {f"perfassert_{h}": plugins.hookimpl(f) for h, f in hooks.items()}
        plugins.register(SimpleNamespace(**marked), name)
        names.append(name)

    yield register
    for name in names:
        plugins.unregister(name)


class Shorter:
    name, category = "Shorter Chain", STALL_ELIMINATION

    def match(self, case):
        return Match("make it shorter", list(case.of("execution_dependency")))


def test_a_metric_is_expected_and_reported(add):
    p = pa.predict(copy_kernel(), LAUNCH, "a100")
    with pytest.raises(pa.ExpectationError, match="unknown metric 'waves'"):
        p.expect(waves=1)
    add("w", metrics=lambda: [Metric("waves", lambda p: p.blocks / 108)])
    p.expect(waves="> 30")
    with pytest.raises(pa.ExpectationFailed, match="waves is 37.9"):
        p.expect(waves="< 3")
    with pytest.raises(pa.ExpectationError, match="did you mean 'waves'"):
        p.expect(wave=1)


def test_an_optimizer_advises_and_is_expected(add):
    with pytest.raises(pa.ExpectationError, match="unknown name 'Shorter Chain'"):
        chain().expect(advice="Shorter Chain")
    add("s", optimizers=lambda: [Shorter()])
    prediction = chain()
    prediction.expect(advice="in top 3: shorter chain | Loop Unrolling")
    assert "Shorter Chain" in [a.optimizer for a in prediction.advice]
    with pytest.raises(pa.ExpectationError, match="did you mean 'Shorter Chain'"):
        prediction.expect(advice="Shorter Chains")


class Restated(Shorter):
    """Says what to change."""

    def __init__(self, name, **stated):
        self.name, self.stated = name, stated

    def match(self, case):
        return replace(super().match(case), **self.stated)


def gain(name):
    return {a.optimizer: a for a in chain().advice}[name]


def test_a_change_as_0_3_stated_it_is_read_as_rewrites(add):
    """The chain's one instruction takes half as long."""
    add("new", optimizers=lambda: [Restated("New", rewrites=(HalveCosts(frozenset({0})),))])
    new = gain("New")
    assert new.context["estimate"] == "simulation"
    assert new.speedup == pytest.approx(2, rel=0.3)
    add("old", optimizers=lambda: [Restated("Old", change=Change(cheaper=frozenset({0})))])
    with pytest.warns(DeprecationWarning, match=r"rewrites=\("):
        old = gain("Old")
    assert old == replace(new, optimizer=old.optimizer, hotspots=old.hotspots)


@dataclass(frozen=True)
class RunOnce(Rewrite):
    """A rewrite that leaves one iteration of each loop."""


def test_a_plug_in_adds_a_rewrite_of_its_own(add):
    @rewrite_graph.register
    def _(rewrite: RunOnce, graph, site):
        return replace(graph, loops=tuple(replace(x, trips=1) for x in graph.loops))

    add("own", optimizers=lambda: [Restated("Once", rewrites=(RunOnce(),))])
    own = gain("Once")
    assert own.speedup > 1.2
    assert own.context["estimate"] == "simulation"


def test_devices_come_from_folders_and_files(add, tmp_path):
    text = (ROOT / "devices/A40.toml").read_text("utf-8")
    for name in ("B40", "C40"):
        head = f'name = "{name}"\naliases = ["{name}-PCIE"]\n'
        own = re.sub(r"^name = .*\n", head, text.replace("aliases = []\n", ""), flags=re.M)
        (tmp_path / f"{name}.toml").write_text(own, "utf-8")
    shipped = pa.devices()
    add("d", devices=lambda: [str(tmp_path)])
    assert set(pa.devices()) - set(shipped) == {"B40", "C40"}
    assert pa.device("b40").name == pa.device("B40-pcie").name == "B40"
    with pytest.raises(pa.UnknownDevice, match="'B40'"):
        pa.device("B400")
    assert pa.predict(copy_kernel(), LAUNCH, "c40").device == "C40"


def test_a_front_end_reads_files_of_its_suffix(add, tmp_path, capsys):
    source = tmp_path / "k.ir"
    source.write_text("copy")
    command = ["predict", str(source), "--device", "a100", "--grid", "64", "--block", "256"]
    assert main(command) == 2
    assert "no front end reads .ir; known: .cu" in capsys.readouterr().err
    add("ir", frontends=lambda: {".ir": lambda path, kernel: copy_kernel(path.read_text())})
    assert main(command) == 0
    assert "copy on A100" in capsys.readouterr().out
    assert main([*command, "-D", "X=1"]) == 2
    assert "--define: the front end of .ir files takes none" in capsys.readouterr().err
    assert main(["explain", str(source), "--device", "a100"]) == 2
    assert "explain shows compiled code" in capsys.readouterr().err


def test_a_front_end_that_gives_no_kernel_is_named(add, tmp_path, capsys):
    source = tmp_path / "k.ir"
    source.write_text("copy")
    add("ir", frontends=lambda: {".ir": lambda path, kernel: None})
    command = ["predict", str(source), "--device", "a100", "--grid", "64", "--block", "256"]
    assert main(command) == 2
    assert "plug-in ir: the front end of .ir files gave None" in capsys.readouterr().err


def test_report_formats_are_looked_up(add):
    add("r", report_formats=lambda: {"csv": lambda ps: ",".join(p["kernel"] for p in ps)})
    data = [pa.predict(copy_kernel(), LAUNCH, "a100").to_dict(diagnosis=False)]
    assert report_format("csv")(data) == "copy"
    with pytest.raises(pa.PluginError, match="unknown report format 'svg'; did you mean 'csv'"):
        report_format("svg", own=("html", "md", "json"))


def test_two_plugins_that_claim_a_name(add):
    add("one", metrics=lambda: [Metric("m", lambda p: 1.0), Metric("n", lambda p: 1.0)])
    add("two", metrics=lambda: [Metric("m", lambda p: 2.0)])
    p = pa.predict(copy_kernel(), LAUNCH, "a100")
    with pytest.warns(pa.PluginWarning, match="'m' is claimed more than once"):
        p.expect(n=1)
    with pytest.raises(pa.PluginError, match=r"by plug-in one and two; .*PERFASSERT_NO_PLUGINS"):
        p.expect(m=1)


def test_a_name_of_ours_cannot_be_taken(add):
    add("x", metrics=lambda: [Metric("time", lambda p: 0.0)], optimizers=lambda: [Fast()])
    p = pa.predict(copy_kernel(), LAUNCH, "a100")
    p.expect(time="> 1 us")  # ours, without a look at plug-ins
    with (
        pytest.warns(pa.PluginWarning, match="x, perfassert_metrics: perfassert itself has 'time'"),
        pytest.raises(pa.ExpectationError, match="\nnot in use: plug-in x"),
    ):
        p.expect(tim=1)
    with pytest.warns(pa.PluginWarning, match="perfassert itself has 'fast math'"):
        assert chain().advice is not None


class Fast(Shorter):
    name = "fast math"


BROKEN = [
    ("metrics", lambda: 1 / 0, "ZeroDivisionError: division by zero"),
    ("metrics", lambda: ["occupancy"], "'occupancy' is no perfassert.expect.metrics.Metric"),
    ("metrics", lambda: [Metric("a b", float)], "'a b' cannot be a keyword"),
    ("optimizers", lambda: [object()], "is no optimizer: it needs name, category and match"),
    ("optimizers", lambda: [SimpleNamespace(name="A", category="stall eliminator", match=id)],
     "unknown category 'stall eliminator'; did you mean 'stall elimination'?"),
    ("devices", lambda: "folder", "'folder' stands alone"),
    ("devices", lambda: ["/no/such"], "/no/such: cannot be read"),
    ("devices", lambda: [ROOT / "docs"], "there is no *.toml in it"),
    ("devices", lambda: [ROOT / "pyproject.toml"], "must be that of the file"),
    ("frontends", lambda: {"ir": id}, "'ir' is not a suffix"),
    ("frontends", lambda: {".ir": 1}, "1 is not a function"),
    ("report_formats", lambda: {"a-b": id}, "'a-b' is not a valid name"),
    ("report_formats", lambda: {"csv": 1}, "1 is not a function"),
]  # fmt: skip


def test_a_device_file_that_is_broken_further_down_is_left_out(add, tmp_path):
    (tmp_path / "BAD.toml").write_text('name = "BAD"\n[sources]\nb = = 1\n')
    add("bad", devices=lambda: [tmp_path])
    with pytest.warns(pa.PluginWarning, match="not valid TOML"):
        assert "BAD" not in pa.devices()


@pytest.mark.parametrize(("hook", "function", "reason"), BROKEN)
def test_a_broken_hook_is_left_out_and_named(add, hook, function, reason):
    add("bad", **{hook: function})
    add("good", metrics=lambda: [Metric("fine", lambda p: 1.0)])
    with pytest.warns(pa.PluginWarning) as warned:
        ask_for_nothing_known(hook)
    text = str(warned[0].message)
    assert text.startswith(f"plug-in bad, perfassert_{hook}: ")
    assert reason in text
    assert text.endswith("or leave it out with PERFASSERT_NO_PLUGINS=bad")
    ask_for_nothing_known(hook)  # says so once
    pa.predict(copy_kernel(), LAUNCH, "a100").expect(fine=1)


def ask_for_nothing_known(hook):
    """Look up an unknown name at a hook, which fails with a message about the cause."""
    from perfassert.frontends.plugged import frontend

    prediction = pa.predict(copy_kernel(), LAUNCH, "a100")
    ask = {
        "metrics": lambda: prediction.expect(nothing=1),
        "optimizers": lambda: prediction.expect(advice="Nothing"),
        "devices": lambda: pa.device("nothing"),
        "frontends": lambda: frontend(".nothing", "k.nothing", ()),
        "report_formats": lambda: report_format("nothing"),
    }[hook]
    with pytest.raises(pa.PerfAssertError, match="not in use: plug-in bad"):
        ask()


def test_what_fails_at_work_is_named(add):
    add("bad", metrics=lambda: [Metric("m", lambda p: 1 / 0)])
    with pytest.raises(pa.PluginError, match="plug-in bad: metric 'm' failed: ZeroDivisionError"):
        pa.predict(copy_kernel(), LAUNCH, "a100").expect(m=1)


def failing(case):
    raise KeyError("loop")


@pytest.mark.parametrize(
    ("match", "reason"),
    [
        (failing, "plug-in bad: optimizer 'Shorter Chain' failed: KeyError: 'loop'"),
        (lambda case: "text", "optimizer 'Shorter Chain' failed: .* which is no Match"),
        (
            lambda case: replace(Shorter().match(case), change="text"),
            "optimizer 'Shorter Chain' failed: TypeError: 'text' is no Change",
        ),
        (
            lambda case: replace(Shorter().match(case), rewrites=["text"]),
            "optimizer 'Shorter Chain' failed: TypeError: .*'text', which is no Rewrite",
        ),
        (
            lambda case: replace(Shorter().match(case), rewrites=[Unroll(5)]),
            "optimizer 'Shorter Chain': its change failed: ",
        ),
    ],
)
def test_an_optimizer_that_fails_costs_its_own_advice(add, match, reason):
    before = chain()
    stalls, advice = before.stalls, before.advice
    optimizer = Shorter()
    optimizer.match = match
    add("bad", optimizers=lambda: [optimizer])
    with pytest.warns(pa.PluginWarning, match=reason):
        now = chain().diagnosis
    assert (now.advice, now.stalls) == (advice, stalls)


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [
        (SimpleNamespace(), "implements no hook"),
        (SimpleNamespace(perfassert_metric=plugins.hookimpl(lambda: [])), "did you mean"),
        (SimpleNamespace(perfassert_metrics=plugins.hookimpl(lambda nothing: [])), "nothing"),
    ],
)
def test_what_cannot_be_registered(plugin, reason):
    with pytest.raises(pa.PluginError, match=reason):
        plugins.register(plugin, "bad")
    assert "bad" not in plugins.names()


def test_names_are_unique_and_listed(add):
    add("one", metrics=lambda: [])
    assert "one" in plugins.names()
    with pytest.raises(pa.PluginError, match="another plug-in has that name"):
        add("one", metrics=lambda: [])
    plugins.unregister("nobody")


def test_our_names_are_what_the_hooks_check_against():
    from perfassert.engines.advisor.advise import own_optimizers

    assert {o.name for o in own_optimizers()} == set(OPTIMIZERS)
    assert all(name == name.casefold() for name in METRICS)


def test_hooks_are_listed_in_the_docs():
    page = (ROOT / "docs/how-to/plugins.md").read_text("utf-8")
    for hook in vars(plugins.Hooks):
        if hook.startswith("perfassert_"):
            assert hook in page


ENTRY_POINTS = {
    "broken": "import no_such_module_at_all",
    "empty": "",
    "healthy": (
        "from perfassert.expect.metrics import Metric\n"
        "from perfassert.plugins import hookimpl\n"
        "@hookimpl\n"
        "def perfassert_metrics():\n"
        "    return [Metric('fine', lambda p: 1.0)]\n"
    ),
}
SCRIPT = """
import perfassert as pa
p = pa.predict(pa.Kernel.from_accesses("k", [pa.Field("a", shape=(1024,))], ["a[x]"]),
               pa.Launch.cover(1024, 64), "a100")
p.expect(time="> 0 s")
print("before")
p.expect(fine=1)
p.expect(other=1)
"""


@pytest.fixture
def site(tmp_path):
    """A folder with modules that an installed distribution declares as plug-ins."""
    info = tmp_path / "things-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: things\nVersion: 1.0\n")
    lines = [f"{name} = things_{name}" for name in ENTRY_POINTS]
    (info / "entry_points.txt").write_text("[perfassert]\n" + "\n".join(lines) + "\n")
    for name, text in ENTRY_POINTS.items():
        (tmp_path / f"things_{name}.py").write_text(text)
    return tmp_path


def python(site, **environment):
    return subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, encoding="utf-8",
        env=os.environ | {"PYTHONPATH": str(site)} | environment,
    )  # fmt: skip


def test_entry_points_are_loaded_when_needed_and_one_by_one(site):
    done = python(site)
    assert done.stdout == "before\n"
    error = done.stderr
    assert "PluginWarning: plug-in broken (of things): cannot be loaded: ModuleNotFound" in error
    assert "PluginWarning: plug-in empty (of things): implements no hook" in error
    assert error.count("PluginWarning") == 2
    assert "unknown metric 'other'" in error
    assert "not in use: plug-in broken (of things)" in error


@pytest.fixture
def afresh(site, monkeypatch):
    """No plug-in is known yet, and the distribution lies on the path."""
    monkeypatch.syspath_prepend(site)
    monkeypatch.setattr(plugins, "PLUGINS", plugins.Plugins())
    return site


def test_a_healthy_plugin_works_beside_broken_ones(afresh):
    with pytest.warns(pa.PluginWarning) as warned:
        assert plugins.names() == ("healthy",)
    assert len(warned) == 2
    assert plugins.names() == ("healthy",)
    pa.predict(copy_kernel(), LAUNCH, "a100").expect(fine=1)


def test_one_plugin_on_two_paths_is_one(afresh, tmp_path_factory, monkeypatch):
    other = tmp_path_factory.mktemp("other")
    info = "things-1.0.dist-info"
    shutil.copytree(afresh / info, other / "more-2.0.dist-info")
    metadata = other / "more-2.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("things", "more"))
    monkeypatch.syspath_prepend(other)
    monkeypatch.setenv("PERFASSERT_NO_PLUGINS", "broken,empty")
    assert plugins.names() == ("healthy",)


def test_two_plugins_of_one_name(afresh, tmp_path_factory, monkeypatch):
    info = tmp_path_factory.mktemp("other") / "more-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: more\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[perfassert]\nhealthy = zzz\n")
    (info.parent / "zzz.py").write_text("")
    monkeypatch.syspath_prepend(info.parent)
    monkeypatch.setenv("PERFASSERT_NO_PLUGINS", "broken,empty")
    with pytest.warns(pa.PluginWarning, match=r"healthy \(of more\): another plug-in has that"):
        assert plugins.names() == ("healthy",)


def test_none_is_loaded_where_none_is_wanted(afresh, monkeypatch):
    monkeypatch.setenv("PERFASSERT_NO_PLUGINS", "*")
    assert plugins.names() == ()


def test_the_command_line_warns_in_one_line(site):
    done = subprocess.run(
        [sys.executable, "-m", "perfassert", "devices"], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(site)},
    )  # fmt: skip
    assert done.returncode == 0
    assert "A40" in done.stdout.splitlines()
    first, second = done.stderr.splitlines()
    assert first.startswith("perfassert: warning: plug-in broken (of things): cannot be loaded")
    assert second.startswith("perfassert: warning: plug-in empty (of things): implements no hook")


def test_plugins_can_be_left_out(site):
    some = python(site, PERFASSERT_NO_PLUGINS="broken, empty").stderr
    assert "PluginWarning" not in some
    assert "unknown metric 'other'" in some
    assert "unknown metric 'fine'" in python(site, PERFASSERT_NO_PLUGINS="*").stderr


def test_tests_that_ask_for_nothing_of_it_pass_beside_a_broken_metric(pytester, site, monkeypatch):
    (site / "things_broken.py").write_text(ENTRY_POINTS["healthy"].replace("1.0)", "1 / 0)"))
    (site / "things_empty.py").write_text(ENTRY_POINTS["healthy"].replace("fine", "calm"))
    shutil.copy(site / "things_empty.py", site / "things_healthy.py")
    (site / "things_healthy.py").write_text(ENTRY_POINTS["healthy"].replace("fine", "well"))
    pytester.makepyfile(
        """
        import perfassert as pa
        K = pa.Kernel.from_accesses("k", [pa.Field("a", shape=(1024,))], ["a[x]"])
        def test_it(perf):
            perf(K, domain=1024, block=64).expect(limiter="latency | parallelism", well=1)
        """
    )
    monkeypatch.setenv("PYTHONPATH", str(site))
    result = pytester.runpytest_subprocess("--perf-device", "a100", "-p", "no:randomly")
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*PluginWarning: plug-in broken: metric 'fine' failed*"])

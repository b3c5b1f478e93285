"""Files that extend others, entries that refer to others, and the identity of a device."""

import json
import os
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.hardware.entries import Grade
from perfassert.hardware.schema import ARCHITECTURE, VALUES
from perfassert.hardware.write import device_toml
from perfassert.shipped import device_folder, read_head, read_table

DIGESTS = Path(__file__).with_name("digests.json")
SLIM = """
schema = 1
name = "SLIM"
extends = "RTX-3090"
sources.board = "data sheet of the board"
[values]
compute_units = { value = 68, source = "board", grade = "documented" }
l2_bytes = { value = 5, unit = "MiB", source = "board", grade = "documented" }
"""


@pytest.fixture
def file(tmp_path):
    def write(text, name="slim.toml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_values_of_shipped_devices_change_only_on_purpose():
    """A new digest makes baselines speak of a changed device."""
    assert {name: pa.device(name).digest for name in pa.devices()} == json.loads(
        DIGESTS.read_text()
    )


@pytest.mark.parametrize(
    "text",
    [
        'name = "A"\naliases = ["a", "b"]\n\n[sources]\naliases = "c"\n',
        "aliases = [\n  'a', # [1]\n  'b']\n  [sources]\n",
        "aliases = [\n['a'],\n['b']]\n",  # a line of a value begins as a table does
        'aliases = 1\nnote = """\n[sources]\naliases = 2"""\n[[table]]\n',
        "",
    ],
)
def test_the_head_of_a_file_has_its_aliases(tmp_path, text):
    path = tmp_path / "k.toml"
    path.write_text(text)
    whole = {k: v for k, v in read_table(path).items() if not isinstance(v, (dict, list))}
    head = read_head(path)
    assert head.get("aliases") == read_table(path).get("aliases")
    assert whole.items() <= head.items()


@pytest.mark.parametrize("path", sorted(device_folder().glob("*.toml")), ids=lambda path: path.stem)
def test_the_head_of_a_shipped_file(path):
    assert read_head(path).get("aliases") == read_table(path).get("aliases")


@pytest.mark.parametrize("name", pa.devices())
def test_latencies_that_operations_refer_to(name):
    """Nothing but these operations reads them."""
    assert {"shared_latency", "constant_latency"} <= set(pa.device(name).references.values())


def test_a_file_that_extends_is_complete(file):
    slim, base = pa.device(file(SLIM)), pa.device("RTX-3090")
    assert (slim.name, slim.arch, slim.aliases) == ("SLIM", "sm_86", ())
    assert (slim.compute_units, slim.l2_bytes) == (68, 5 * 2**20)
    same = set(VALUES) - {"compute_units", "l2_bytes"}
    assert {k: getattr(slim, k) for k in same} == {k: getattr(base, k) for k in same}
    assert slim.operations == base.operations
    assert slim.pipelines == base.pipelines
    assert slim.curves == base.curves
    assert slim.digest != base.digest
    assert set(slim.provenance) == set(base.provenance)


def test_what_is_inherited_says_so(file):
    slim, base = pa.device(file(SLIM)), pa.device("RTX-3090")
    own = slim.provenance["values.l2_bytes"]
    assert (own.source, own.grade) == ("data sheet of the board", Grade.DOCUMENTED)
    for key, origin in slim.provenance.items():
        if key in ("values.l2_bytes", "values.compute_units") or key.startswith("curves."):
            continue
        assert origin.source == base.provenance[key].source
        if origin.note == f"as {slim.references.get(key)}":
            assert origin.grade is slim.provenance[f"values.{slim.references[key]}"].grade
            continue
        assert origin.note.startswith("as RTX-3090"), key
        documented = base.provenance[key].grade is Grade.DOCUMENTED
        lasting = (
            key.startswith(("operations.", "matrix.")) or key.partition(".")[2] in ARCHITECTURE
        )
        assert (origin.grade is Grade.DOCUMENTED) is (documented and lasting), key
        assert origin.grade in (Grade.ASSUMED, Grade.DOCUMENTED), key
    assert slim.provenance["values.clock_hz"].note == "as RTX-3090: boost clock; base 1395"


def test_another_architecture_inherits_no_documents(file):
    slim = pa.device(file(SLIM.replace("extends", 'arch = "sm_87"\nextends')))
    assert slim.arch == "sm_87"
    assert slim.provenance["values.warp_size"].grade is Grade.ASSUMED


def test_chains_and_paths(file):
    file(SLIM)
    text = SLIM.replace('"RTX-3090"', '"slim.toml"').replace("SLIM", "THIN")
    thin = pa.device(
        file(text.replace("l2_bytes = { value = 5", "l2_bytes = { value = 4"), "t.toml")
    )
    assert (thin.name, thin.compute_units, thin.l2_bytes) == ("THIN", 68, 4 * 2**20)
    assert thin.provenance["values.clock_hz"].note.startswith("as RTX-3090: ")
    text = 'schema = 1\nname = "TWIN"\nextends = "slim.toml"'
    twin = pa.device(file(text, "twin.toml"))
    assert twin.provenance["values.l2_bytes"].note == "as SLIM"
    assert twin.provenance["values.l2_bytes"].grade is Grade.ASSUMED


def test_parts_of_an_operation_are_overridden(file):
    more = """
    [operations.fp64]
    issue = { value = 2, unit = "cycles", source = "board", grade = "documented" }
    [operations.ray]
    pipeline = "rays"
    issue = { value = 7, unit = "cycles", source = "board", grade = "documented" }
    completion = "l2_latency"
    [pipelines]
    rays = "unit"
    """
    slim, base = pa.device(file(SLIM + more)), pa.device("RTX-3090")
    assert slim.operation("fp64").issue == 2
    assert slim.operation("fp64").completion == base.operation("fp64").completion
    assert slim.operation("ray").completion == base.l2_latency
    assert slim.pipelines["rays"].value == "unit"


def test_a_rate_of_its_own_replaces_listed_products(file):
    """Else the rate would say one thing and the operation's λ another."""
    halved = """
    [matrix]
    "tensor.f16.f16" = { value = 128, unit = "madd/cycle", source = "board", grade = "documented" }
    """
    slim, base = pa.device(file(SLIM + halved)), pa.device("RTX-3090")
    products = "tensor.m16n8k16.f16.f16"
    rate = base.matrix["tensor.f16.f16"]
    assert slim.operation(products).issue == base.operation(products).issue * rate / 128
    integers = "tensor.m16n8k32.s8.s32"
    assert slim.operations[integers] == base.operations[integers]
    listed = f"""{halved}
    [operations."{products}"]
    issue = {{ value = 33, unit = "cycles", source = "board", grade = "measured" }}
    """
    assert pa.device(file(SLIM + listed, "own.toml")).operations[products].issue == 33


def test_an_edit_of_what_is_extended_counts(file):
    base = file(SLIM)
    twin = file('schema = 1\nname = "TWIN"\nextends = "slim.toml"', "twin.toml")
    assert pa.device(twin) is pa.device(twin)
    assert pa.device(twin).l2_bytes == 5 * 2**20
    base.write_text(SLIM.replace("value = 5,", "value = 6,"))
    os.utime(base, ns=(1, 1))
    assert pa.device(twin).l2_bytes == 6 * 2**20


REFERENCE = """
l2_latency = { value = 300, unit = "cycles", source = "board", grade = "documented", note = "it" }
dram_latency = { value = "l2_latency", source = "board", grade = "assumed", note = "unknown" }
constant_latency = "dram_latency"
[operations.global_load]
completion = "dram_latency"
"""


def test_references(file):
    slim = pa.device(file(SLIM + REFERENCE))
    assert slim.dram_latency == slim.constant_latency == slim.operation("load").completion == 300
    origin = slim.provenance
    assert origin["values.dram_latency"].note == "unknown"
    assert origin["operations.global_load.completion"].grade is Grade.ASSUMED
    assert origin["operations.global_load.completion"].note == "as dram_latency"
    assert slim.references["operations.global_load.completion"] == "dram_latency"


def test_what_refers_follows(file):
    slim = pa.device(file(SLIM + REFERENCE))
    slow = slim.replace(l2_latency=400.0)
    assert slow.dram_latency == slow.constant_latency == slow.operation("load").completion == 400
    apart = slim.replace(l2_latency=200.0, dram_latency=500.0)
    assert (apart.l2_latency, apart.constant_latency, apart.dram_latency) == (200, 500, 500)
    given = slim.replace(dram_latency=500.0, operations=slim.operations)
    assert given.operation("load").completion == 300


@pytest.mark.parametrize(
    ("good", "bad", "reason"),
    [
        ('"RTX-3090"', '"RTX-309O"', "extends: unknown device 'RTX-309O'; did you mean 'RTX-3090'"),
        ('"RTX-3090"', '"no.toml"', "no.toml: cannot be read"),
        ('"RTX-3090"', '"slim.toml"', "extends: goes round in a circle: slim → slim"),
        ('"RTX-3090"', "3090", "extends: must be the name or the path"),
        ("[values]", "[operation]", "operation: unknown key; did you mean 'operations'"),
        ("l2_bytes", "l3_bytes", "values.l3_bytes: unknown key"),
        ("value = 68", 'value = "l2_byte"', "compute_units.value: must be a number, not 'l2_byte'"),
        ("value = 68", 'value = "l2_bytes"', "compute_units: is in count, so it cannot refer to"),
        ("[values]", '[values]\ndram_latency = "l2_latncy"', "did you mean 'l2_latency'"),
        ("[values]", '[values]\nl2_latency = "l2_latency"', "values.l2_latency: refers to itself"),
        (
            "[values]",
            '[values]\ndram_latency = "l2_latency"\nl2_latency = "dram_latency"',
            "refers to itself: values.l2_latency → values.dram_latency → values.l2_latency",
        ),
        (
            "[values]",
            '[values]\nl1_latency = { value = "l2_latency", unit = "cycles", source = "board" }',
            "values.l1_latency.unit: is that of l2_latency; leave it out",
        ),
        ("[values]", '[operations.ray]\ncompletion="l2_latency"\n[values]', "ray.issue: missing"),
        ('name = "SLIM"', "", "name: missing"),
        ("schema = 1", "", "schema: missing"),
        ("value = 5,", "value = 0.0001,", "l2_bytes.value: must be an integer"),
    ],
)  # fmt: skip
def test_broken_files(file, good, bad, reason):
    assert good in SLIM
    with pytest.raises(pa.DeviceFileError) as caught:
        pa.device(file(SLIM.replace(good, bad, 1)))
    assert reason in str(caught.value)


def test_circles_of_files(file):
    file('schema = 1\nname = "A"\nextends = "b.toml"', "a.toml")
    path = file('schema = 1\nname = "B"\nextends = "a.toml"', "b.toml")
    with pytest.raises(pa.DeviceFileError, match="b.toml: extends: goes round.*b → a → b"):
        pa.device(path)


@pytest.mark.parametrize("name", pa.devices())
def test_a_device_as_one_file_is_the_same_device(file, name):
    device = pa.device(name)
    again = pa.device(file(device_toml(device), "again.toml"))
    assert again == device
    assert again.provenance == device.provenance


def test_extended_files_become_one_file(file):
    slim = pa.device(file(SLIM + REFERENCE))
    text = device_toml(slim)
    assert "extends" not in text
    again = pa.device(file(text, "again.toml"))
    assert again == slim
    assert again.references == slim.references
    assert again.replace(l2_latency=400.0).operation("load").completion == 400

"""The device files of docs/reference/devices.md predict compiled code."""

import re
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.sensitivity.examples import EXAMPLES, example

PAGE = Path(__file__).parents[2] / "docs/reference/devices.md"
FILES = dict(
    re.findall(r"^<!-- file: (\S+\.toml) -->\n```toml\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
)


@pytest.mark.parametrize("name", ["example-gpu.toml", "rtx-3080.toml"])
def test_compiled_code(name, tmp_path):
    path = tmp_path / name
    path.write_text(FILES[name])
    device = pa.device(path)
    for one in EXAMPLES:
        case = example(one, device.warp_size)
        assert pa.predict(case.kernel, case.launch, device).time > 0
    classes = {name for name in pa.device("a100").operations if "." not in name}
    assert classes <= set(device.operations)


def test_a_new_device_takes_less_than_ten_lines(tmp_path):
    text = FILES["rtx-3080.toml"]
    assert len(text.splitlines()) < 10
    path = tmp_path / "rtx-3080.toml"
    path.write_text(text)
    device, base = pa.device(path), pa.device("RTX-3090")
    assert (device.arch, device.compute_units, device.l2_bytes) == ("sm_86", 68, 5 * 2**20)
    case = example("saxpy", 32)
    slower = pa.predict(case.kernel, case.launch, device).time
    assert slower / pa.predict(case.kernel, case.launch, base).time == pytest.approx(
        833 / 676, rel=0.1
    )

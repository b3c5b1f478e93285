"""Programs built with nvcc and a host compiler, recorded."""

from pathlib import Path

import pytest
from host_programs import built, need_nvcc

from perfassert.frontends.recording.session import Request, record
from perfassert.hardware.load import device

EXAMPLES = Path(__file__).parents[3] / "examples/recording"


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """``build("loop.cu")`` of the examples, or of a name and a text; the path of the program."""
    need_nvcc()
    folder = tmp_path_factory.mktemp("programs")
    held = {}

    def one(name, text=None, *options):
        key = (name, text, options)
        if key not in held:
            source = EXAMPLES / name
            if text is not None:
                source = folder / f"{len(held)}-{name}"
                source.write_text(text)
            given = options or ("-arch=sm_80", "-lineinfo")
            held[key] = built(source, folder / f"{len(held)}-{source.stem}.program", *given)
        return held[key]

    return one


@pytest.fixture
def recorded(monkeypatch, tmp_path):
    """``recorded(program, "argument", …)``: the recording."""
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "cache"))

    def one(program, *arguments, gpu="A100-SXM4-40GB", **more):
        command = (str(program), *map(str, arguments))
        request = Request(command, device(gpu), 16 << 30, timeout=60, **more)
        return record(request)

    return one

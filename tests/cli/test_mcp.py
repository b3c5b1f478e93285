"""The server of the Model Context Protocol, asked by the official client over stdio."""

import asyncio
import json
import os
import sys

import pytest

from perfassert.cli.tool_calls import TOOLS, tool_schema

mcp = pytest.importorskip("mcp", reason="the extra mcp is not installed")
pytestmark = [
    pytest.mark.exhaustive(one_in=4),
    pytest.mark.filterwarnings("default"),  # of the SDK's own dependencies
]
SAXPY = """
__global__ void saxpy(int n, float a, const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
"""
LAUNCH = {"source": "k.cu", "device": "a100", "grid": 4096, "block": [256], "args": {"n": 1 << 20}}


def in_session(folder, use):
    """Return the result of ``use`` on a session with a server that was started in the folder."""
    from mcp.client.stdio import StdioServerParameters, stdio_client

    server = StdioServerParameters(
        command=sys.executable, args=["-m", "perfassert", "mcp"], cwd=str(folder),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip

    async def run():
        async with stdio_client(server) as streams, mcp.ClientSession(*streams) as session:
            await session.initialize()
            return await use(session)

    return asyncio.run(asyncio.wait_for(run(), 120))


def converse(folder, *questions):
    """The tools that the server lists, and the answer to each question: error, text."""

    async def use(session):
        tools = (await session.list_tools()).tools
        answers = [await session.call_tool(*question) for question in questions]
        return tools, [(_failed(answer), answer.content[0].text) for answer in answers]

    return in_session(folder, use)


def _failed(answer):
    return answer.is_error if hasattr(answer, "is_error") else answer.isError


def _input_schema(tool):
    return tool.input_schema if hasattr(tool, "input_schema") else tool.inputSchema


def test_the_official_client_lists_tools_and_gets_errors_as_text(tmp_path):
    tools, answers = converse(
        tmp_path,
        ("devices", {}),
        ("kernels", {"source": "../secret.cu"}),
        ("predict", {**LAUNCH, "source": "missing.cu"}),
    )
    assert {tool.name for tool in tools} == set(TOOLS)
    for tool in tools:
        own, shown = tool_schema(TOOLS[tool.name]), _input_schema(tool)
        assert set(shown["properties"]) == set(own["properties"])
        assert set(shown.get("required", ())) == set(own["required"])
        assert tool.description
    known, outside, missing = answers
    assert not known[0]
    assert "H200" in json.loads(known[1])["devices"]
    assert outside[0]
    assert "lies outside of" in outside[1]
    assert missing[0]
    assert "missing.cu" in missing[1]


def test_a_prediction(tmp_path, toolchain):
    (tmp_path / "k.cu").write_text(SAXPY)
    _, answers = converse(tmp_path, ("predict", {**LAUNCH, "kernel": "saxpy"}))
    failed, text = answers[0]
    assert not failed, text
    prediction = json.loads(text)
    assert {"confidence", "speed_of_light", "headroom"} <= set(prediction)
    assert len(text) < 1500


def test_odd_questions(tmp_path):
    """Odd questions get an answer that reveals no internals, and the next question is answered."""
    (tmp_path / "secret.cu").symlink_to("/etc/passwd")
    odd = [
        ("predict", {**LAUNCH, "source": "x" * 1_000_000}),
        ("predict", {**LAUNCH, "source": "secret.cu"}),
        ("predict", {**LAUNCH, "block": 2**40}),
        ("predict", {**LAUNCH, "args": {"n": {str(2**70): 1}}}),
        ("confine", {}),
        ("devices", {"name": "\x1b[31m\u202e", "colour": 5}),
        ("rank", {"source": "k.cu", "device": "a100", "domain": [1] * 10_000}),
    ]
    questions = [question for one in odd for question in (one, ("devices", {}))]
    _, answers = converse(tmp_path, *questions)
    assert [failed for failed, _ in answers] == [True, False] * len(odd)
    for _, text in answers:
        assert "internal error" not in text
        assert "root:" not in text


def test_calls_at_once_and_one_that_is_given_up(tmp_path, toolchain):
    (tmp_path / "k.cu").write_text(SAXPY)
    grids = [1 << n for n in range(8, 20)] * 3

    async def use(session):
        given_up = asyncio.create_task(session.call_tool("advise", LAUNCH))
        await asyncio.sleep(0.1)
        given_up.cancel()
        calls = (session.call_tool("predict", {**LAUNCH, "grid": grid}) for grid in grids)
        return [json.loads(answer.content[0].text) for answer in await asyncio.gather(*calls)]

    times = [answer["time"] for answer in in_session(tmp_path, use)]
    assert times == sorted(times[:12]) * 3
    assert len(set(times)) > 6

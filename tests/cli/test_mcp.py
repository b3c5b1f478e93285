"""The server of the Model Context Protocol, asked by the official client over stdio."""

import asyncio
import json
import os
import sys

import pytest

from perfassert.cli.tool_calls import TOOLS, tool_schema

mcp = pytest.importorskip("mcp", reason="the extra mcp is not installed")
pytestmark = pytest.mark.filterwarnings("default")  # of the SDK's own dependencies

SAXPY = """
__global__ void saxpy(int n, float a, const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
"""
LAUNCH = {"source": "k.cu", "device": "a100", "grid": 4096, "block": [256], "args": {"n": 1 << 20}}


def converse(folder, *questions):
    """The tools that the server lists, and the answer to each question: error, text."""
    from mcp.client.stdio import StdioServerParameters, stdio_client

    server = StdioServerParameters(
        command=sys.executable, args=["-m", "perfassert", "mcp"], cwd=str(folder),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip

    async def run():
        async with stdio_client(server) as streams, mcp.ClientSession(*streams) as session:
            await session.initialize()
            tools = (await session.list_tools()).tools
            answers = [await session.call_tool(*question) for question in questions]
            return tools, [(_failed(answer), answer.content[0].text) for answer in answers]

    return asyncio.run(asyncio.wait_for(run(), 120))


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

"""Tests that the opcodes of a generated corpus have a class, on every architecture.

A second list holds opcodes of the Instruction Set Reference in NVIDIA's "CUDA Binary Utilities"
that no snippet asks for.
"""

import os

import opcode_features
import pytest
from described import missing
from opcode_corpus import source

from perfassert.frontends.machine.opcodes import operation_class
from perfassert.frontends.machine.sass import parse_listing
from perfassert.frontends.toolchain.build import Source, build

pytestmark = pytest.mark.exhaustive(one_in=2)

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120")
if not os.environ.get("PERFASSERT_EXHAUSTIVE"):
    ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")  # one of each family
DOCUMENTED = {
    "sm_75": "BMSK BREAK CCTLL CCTLT HFMA2_32I IADD IADD32I IMUL ISCADD JMX KILL LEPC LOP R2B "
    "RTT SETCTAID SGXT SUATOM SURED TMML TXQ UCLEA UP2UR VOTE WARPSYNC YIELD",
    "sm_80": "ACQBULK ATOM I2IP LDGDEPBAR LDGSTS MOVM PSETP REDUX RPCMOV UBMSK UPSETP USGXT",
    "sm_90": "BGMMA HGMMA IGMMA LDGMC QGMMA REDAS STAS USETMAXREG VHMNMX VIADDMNMX VIMNMX3 "
    "WARPGROUP WARPGROUPSET UF2FP ULEPC",
    "sm_100": "CREDUX CS2UR FADD2 FHADD FHFMA LDT LDTM STT STTM UFADD UF2I UI2FP UIABS "
    "UGETNEXTWORKID UMEMSETS UREDGR USTGR UTCATOMSWS UTCBAR UTCCP UTCHMMA UTCIMMA UTCOMMA "
    "UTCQMMA UTCSHIFT UVIRTCOUNT",
    "sm_120": "OMMA QMMA FMNMX3 UFMNMX UVIMNMX",
}


def opcodes(path, text, kernels, arch):
    """An instruction for each."""
    path.write_text(text)
    seen = {}
    for kernel in kernels:
        listing = build(Source(path, "cuda", kernel), arch).listing
        for instruction in parse_listing(listing, kernel).instructions:
            seen[instruction.base] = instruction
    return seen


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.exhaustive(one_in=3)
def test_every_opcode_of_the_corpus_has_a_class(arch, tmp_path):
    if missing():
        pytest.skip(f"{missing()} is not installed")
    text, kernels = source(arch)
    seen = opcodes(tmp_path / "corpus.cu", text, kernels, arch)
    assert len(seen) > 90, "the corpus asks for less than it did"
    unknown = {b: i.text for b, i in seen.items() if operation_class(i.opcode, arch) is None}
    assert unknown == {}


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("arch", opcode_features.GROUPS)
def test_every_opcode_of_one_architectures_features_has_a_class(arch, tmp_path):
    """The features are ``wgmma``, ``tcgen05``, bulk copies, ``mbarrier``, ``setmaxnreg``, block
    scales."""
    if missing():
        pytest.skip(f"{missing()} is not installed")
    text, kernels = opcode_features.source(arch)
    seen = opcodes(tmp_path / "features.cu", text, kernels, arch)
    assert set(opcode_features.ASKED_FOR[arch].split()) <= set(seen)
    assert {b: i.text for b, i in seen.items() if operation_class(i.opcode, arch) is None} == {}


@pytest.mark.parametrize("arch", DOCUMENTED)
def test_documented_opcodes_have_a_class(arch):
    unknown = [o for o in DOCUMENTED[arch].split() if operation_class(o, arch) is None]
    assert unknown == []

"""Source lines of a compiled kernel that waste memory traffic: what an editor marks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from perfassert.engines.advisor.case import AccessFacts
from perfassert.kernel.description import BoundKernel, CompiledKernel
from perfassert.kernel.program import ProgramInstruction
from perfassert.predictor.answer import Answer
from perfassert.predictor.diagnose.access_facts import access_facts
from perfassert.predictor.model import model_of

SPILL, UNCOALESCED, BANK_CONFLICT = "register-spill", "uncoalesced-access", "bank-conflict"


@dataclass(frozen=True, slots=True)
class LineFinding:
    """``rule``: one of the three above; ``message``: in a sentence, with numbers."""

    rule: str
    file: str
    line: int
    message: str


def line_findings(prediction: Answer) -> tuple[LineFinding, ...]:
    """Return the worst finding of each file, line and rule.

    The result is empty for a prediction without compiled code or made elsewhere. Accesses with
    assumed addresses are left out.
    """
    if prediction.origin is None or not isinstance(prediction.origin[0], CompiledKernel):
        return ()
    model = model_of(prediction)
    kernel = model.bound_launch.kernel
    assert isinstance(kernel, BoundKernel)
    facts = access_facts(model)
    worst: dict[tuple[str, int, str], tuple[float, str]] = {}
    for instruction in kernel.program.instructions:
        if (span := instruction.span) is None or not span.line:
            continue
        for rule, badness, text in _problems(
            instruction, facts.get(instruction.index), prediction.resources.spill_bytes or 0
        ):
            key = (span.file, span.line, rule)
            worst[key] = max(worst.get(key, (badness, text)), (badness, text))
    return tuple(
        LineFinding(rule, file, line, text)
        for (file, line, rule), (_, text) in sorted(worst.items())
    )


def _problems(
    instruction: ProgramInstruction, facts: AccessFacts | None, local_bytes: int
) -> Iterator[tuple[str, float, str]]:
    """Rule, how bad, and the sentence."""
    space = instruction.operation.partition("_")[0]
    if space == "local" and local_bytes:
        yield (
            SPILL,
            1.0,
            (f"registers or an array are kept in local memory here: {local_bytes} B of a thread"),
        )
    if facts is None or facts.assumed:
        return
    if space == "global" and not facts.is_dense:
        yield (
            UNCOALESCED,
            facts.sectors / facts.ideal_sectors,
            (
                f"a warp touches {facts.sectors:.3g} sectors where "
                f"{facts.ideal_sectors:.3g} would do"
            ),
        )
    if space == "shared" and not facts.is_conflict_free:
        yield (
            BANK_CONFLICT,
            facts.wavefronts / facts.ideal_wavefronts,
            (
                f"an access takes {facts.wavefronts:.3g} wavefronts of shared memory where "
                f"{facts.ideal_wavefronts:.3g} would do"
            ),
        )

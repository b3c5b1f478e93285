"""Advice for samples that were measured on a real GPU."""

from __future__ import annotations

from pathlib import Path

from perfassert.engines.advisor.advise import advise as apply_optimizers
from perfassert.engines.advisor.blame import blame
from perfassert.engines.advisor.code import Code
from perfassert.engines.advisor.optimizers import all_optimizers
from perfassert.errors import KernelError, check_kind, in_short
from perfassert.frontends.nsight import MeasuredSamples
from perfassert.hardware.load import device as load_device
from perfassert.hardware.model import Device
from perfassert.kernel.description import BoundKernel, CompiledKernel, Kernel
from perfassert.kernel.launch import Launch
from perfassert.kernel.program import Program
from perfassert.kernel.samples import Samples
from perfassert.prediction.prediction import Advice
from perfassert.predictor.diagnose.diagnose import (
    WORTH,
    by_formula,
    latency_bounds,
    make_case,
    round_advice,
)
from perfassert.predictor.session import launch_model


def advise(
    kernel: Kernel,
    samples: MeasuredSamples,
    launch: Launch,
    device: Device | str | Path,
) -> tuple[Advice, ...]:
    r"""Advice for samples that were measured on a real GPU.

    Samples are joined to the code by address. The formula of the paper decides: a simulation would
    start from stalls that are not the measured ones.

    Args:
        kernel: the compiled code that was measured.
        samples: from :func:`perfassert.read_samples`.
        launch: as it was measured.
        device: a :class:`Device`, a name or alias, or the path of a device file.

    Returns:
        Suggestions, the largest speedup first.

    Raises:
        SamplesError: the binary is not the one that was measured.
        KernelError: the kernel is not compiled code, or ``samples`` are not from
            :func:`perfassert.read_samples`.

    Example:
        >>> import re, tempfile
        >>> from importlib.resources import files
        >>> from pathlib import Path
        >>> import perfassert as pa
        >>> listing = files("perfassert.sensitivity") / "saxpy.sass"
        >>> page = "Address,Source,stall_selected,stall_long_sb,stall_long_sb (Not Issued)\n"
        >>> for address, text in re.findall(r"/\*(\w{4})\*/\s+(.*?) ?;", listing.read_text()):
        ...     waits = 9 if "FFMA" in text else 0  # for what the loads bring
        ...     page += f'{address},"{text}",1,{waits},{waits}\n'
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "page.csv").write_text(page)
        ...     samples = pa.read_samples(Path(folder, "page.csv"))
        >>> launch = pa.Launch(4096, 256, args={"n": 1 << 20})
        >>> [a.optimizer for a in pa.advise(pa.from_cubin(listing), samples, launch, "a100")]
        ['Code Reordering']

    Source:
        Zhou et al., *GPA: A GPU Performance Advisor Based on Instruction Sampling*, CGO 2021.
    """
    if not isinstance(samples, MeasuredSamples):
        raise KernelError(f"samples must come from read_samples(), not {in_short(samples)}")
    check_kind(kernel, Kernel, "kernel", KernelError)
    if not isinstance(kernel, CompiledKernel):
        raise KernelError(f"kernel {kernel.name!r}: samples belong to compiled code")
    target = load_device(device)
    model = launch_model(kernel, launch, target)
    assert isinstance(model.bound_launch.kernel, BoundKernel)
    program = model.bound_launch.kernel.program
    code = Code.of(program)
    by_instruction = _join_to_code(samples, program)
    blamed = blame(code, by_instruction, latency_bounds(code, target))
    case = make_case(model, code, by_instruction, blamed)
    best: dict[str, Advice] = {}
    for advice, _ in apply_optimizers(case, all_optimizers()):
        best.setdefault(advice.optimizer, advice)
    return tuple(round_advice(by_formula(a)) for a in best.values() if a.speedup >= WORTH)


def _join_to_code(samples: MeasuredSamples, program: Program) -> Samples:
    """Copies of a function that is called from several places share its samples."""
    at: dict[int, list[int]] = {}
    for i in program.instructions:
        at.setdefault(i.address, []).append(i.index)
    listing = [(address, program.instructions[at[address][0]].text) for address in sorted(at)]
    joined = samples.join_listing(listing)
    places = [at[address] for address, _ in listing]
    counts = {
        (index, reason): count.times(1 / len(places[n]))
        for (n, reason), count in joined.counts.items()
        for index in places[n]
    }
    issued = {
        index: times / len(places[n]) for n, times in joined.issued.items() for index in places[n]
    }
    return Samples(counts, issued, None, joined.source)

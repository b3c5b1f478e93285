"""Questions: the kernel, launch and device of one prediction, as immutable content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from perfassert.errors import LaunchError
from perfassert.hardware.model import Device
from perfassert.hardware.occupancy import check_block
from perfassert.kernel.buffer import Share
from perfassert.kernel.content import content_digest
from perfassert.kernel.description import CompiledKernel, Kernel, WrittenKernel
from perfassert.kernel.launch import Launch
from perfassert.quantity import Quantity
from perfassert.shipped import model_integer

if TYPE_CHECKING:
    from perfassert.frontends.cuda.kernels import Analyses, BuiltCode

Volumes = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Question:
    """A launch of a kernel on a device, with overrides: all that a prediction depends on.

    Two questions with the same digest have the same answer. Files and arrays are read when the
    question is made, and not again.

    Attributes:
        kernel: as it is asked about again with changes; its code is compiled.
        launch: as the caller gives it.
        device: the device.
        code: compiled code that stages can bind, check and execute; None for descriptions, and for
            code that only binds itself.
        arguments: the launch with the arguments that the code has.
        volumes: measured volumes in place of predicted ones.
        prove: changes that advice compiles at most; None: a few.
        digest: of the content, without the folders of files.
        key: of the content with them, by which results are recalled; None where a part of it cannot
            be identified, so that nothing is recalled.
    """

    kernel: Kernel
    launch: Launch
    device: Device
    code: BuiltCode | None
    arguments: Launch
    volumes: Volumes
    prove: int | None
    digest: str
    key: str | None


def make_question(
    kernel: Kernel,
    launch: Launch,
    device: Device,
    volumes: Volumes,
    prove: int | None,
    share: Share,
    analyses: Analyses | None,
) -> Question:
    """Compile the code, read the arrays, and digest both.

    Args:
        kernel: from any entry point.
        launch: grid, block and arguments.
        device: the device.
        volumes: measured volumes; empty: none.
        prove: changes that advice compiles at most; None: a few.
        share: see :data:`~perfassert.kernel.buffer.Share`.
        analyses: where compiled code takes its analyses from; None for kernels without.

    Raises:
        LaunchError: a launch that the device cannot run, before anything of its size is made; an
            argument that is no number, array or structure.
    """
    check_block(device, launch.block, launch.shared_bytes)
    if launch.clustered:
        _check_clusters(device)
    launch = launch.freeze(share)
    code, arguments, overrides = None, launch, {}
    if isinstance(kernel, CompiledKernel):
        assert analyses is not None
        overrides = dict(kernel.overrides)
        kernel, code, arguments = _build(kernel, launch, device, analyses)
    measured = {name: _volume_content(value) for name, value in volumes.items()}
    content: tuple[object, ...] = (
        kernel.updates_per_thread, overrides, device.digest, measured, arguments
    )  # fmt: skip
    if prove is not None:
        content = *content, ("prove", prove)
    try:
        known: object = kernel
        if code is None and isinstance(kernel, CompiledKernel):  # code that only binds itself
            assert analyses is not None
            known = analyses.bound_digest(kernel, arguments, device.arch, device.warp_size)
        digest, key = _identify(known, code, content)
    except TypeError as error:
        raise LaunchError(f"the launch cannot be identified: {error}") from None
    return Question(kernel, launch, device, code, arguments, volumes, prove, digest, key)


def _check_clusters(device: Device) -> None:
    from perfassert.frontends.toolchain.architecture import number

    oldest = model_integer("oldest_cluster_architecture")
    if number(device.arch) < oldest:
        raise LaunchError.exceeding(
            f"clusters of blocks are launched from sm_{oldest} on; {device.name} is {device.arch}"
        )


def _identify(
    known: object, code: BuiltCode | None, content: tuple[object, ...]
) -> tuple[str, str | None]:
    """Return the digest and the key of a question; ``known`` is a kernel without code to bind."""
    if code is not None:
        digest = content_digest(code.digest(), *content)
        return digest, content_digest(digest, code.built.digest)
    if isinstance(known, WrittenKernel):
        digest, key = (
            content_digest(known.encode(folders), *content, folders=folders)
            for folders in (False, True)
        )
        return digest, key
    return content_digest(known, *content), None  # the code is not part of the content


def _volume_content(value: Any) -> object:
    return (float(value), value.unit, value.per) if isinstance(value, Quantity) else value


def _build(
    kernel: CompiledKernel, launch: Launch, device: Device, analyses: Analyses
) -> tuple[CompiledKernel, BuiltCode | None, Launch]:
    """Return the kernel with its code compiled, that code, and the launch as the code takes it."""
    from perfassert.frontends.cuda.kernels import BuiltCode, CompiledCode, PerLaunch

    arguments, compiled = kernel.spell_out(launch), kernel.compiled
    if isinstance(compiled, PerLaunch):  # asked again with other arguments, it is other code
        code, arguments = compiled.build_for(arguments, device.arch, device.warp_size)
        return kernel, replace(code, analyses=analyses), arguments
    if isinstance(compiled, CompiledCode):
        code = compiled.build(device.arch, analyses)
        return replace(kernel, compiled=code), code, arguments
    if isinstance(compiled, BuiltCode):
        return kernel, replace(compiled, analyses=analyses), arguments
    return kernel, None, arguments

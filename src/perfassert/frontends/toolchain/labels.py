"""Short names of the kernels of a list, which differ where one name stands for several kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfassert.frontends.toolchain.names import (
    demangle,
    parameter_types,
    short_name,
    split_commas,
    without_parameters,
)

_PART_WIDTHS = (24, 60)  # characters of an argument or a parameter


def kernel_labels(kernels: Sequence[tuple[str, str]]) -> list[str]:
    """Return a short name for each kernel of a list.

    Kernels of one file with the same short name also get the template arguments or the parameters
    that distinguish them.

    Args:
        kernels: file and mangled name of each kernel.

    Example:
        >>> kernel_labels([("a.cu", "_Z1kiPf"), ("a.cu", "_Z1kiPi"), ("b.cu", "_Z1kiPi")])
        ['k(…, float*)', 'k(…, int*)', 'k']
    """
    places = [(file, demangle(mangled)) for file, mangled in kernels]
    groups: dict[tuple[str, str], list[str]] = {}
    for file, signature in dict.fromkeys(places):
        name = short_name(without_parameters(signature))
        groups.setdefault((file, name), []).append(signature)
    labels = {
        (file, signature): label
        for (file, name), signatures in groups.items()
        for signature, label in zip(signatures, _distinct(name, signatures), strict=True)
    }
    return [labels[place] for place in places]


def _distinct(name: str, signatures: Sequence[str]) -> Sequence[str]:
    """Return the first labels that are all different, from the shortest kind to whole ones."""
    if len(signatures) == 1:
        return [name]
    kinds = (labels for width in _PART_WIDTHS for labels in _with_parts(name, signatures, width))
    return next((labels for labels in kinds if len({*labels}) == len(labels)), signatures)


def _with_parts(name: str, signatures: Sequence[str], width: int) -> Iterator[list[str]]:
    """Yield labels with what differs of the template arguments, then of the parameters, too."""
    arguments = [_template_arguments(without_parameters(one)) for one in signatures]
    heads = [name] * len(signatures)
    if any(one != arguments[0] for one in arguments):
        heads = [f"{name.split('<', 1)[0]}<{one}>" for one in _differing(arguments, width)]
        yield heads
    parameters = _differing([parameter_types(one) for one in signatures], width)
    yield [f"{head}({one})" for head, one in zip(heads, parameters, strict=True)]


def _template_arguments(name: str) -> Sequence[str]:
    return split_commas(name[name.index("<") + 1 : -1]) if name.endswith(">") else ()


def _differing(lists: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return each list without the parts that all lists begin with and all lists end with."""
    shortest = min(map(len, lists))
    first = next((i for i in range(shortest) if len({one[i] for one in lists}) > 1), shortest)
    left = shortest - first
    last = next((i for i in range(left) if len({one[-1 - i] for one in lists}) > 1), left)
    return [
        ", ".join(
            [
                *(["…"] if first else []),
                *(short_name(part, width) for part in one[first : len(one) - last]),
                *(["…"] if last else []),
            ]
        )
        for one in lists
    ]

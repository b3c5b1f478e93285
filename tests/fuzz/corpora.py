"""Chooses what the repository keeps of ``.fuzz``: ``python tests/fuzz/corpora.py [PARSER ...]``.

Of each parser the input that runs the most ways from line to line of our own code, the shortest of
equals, then that which adds the most, until nothing is new or ``FILES`` or ``BYTES`` are full.
"""

import contextlib
import hashlib
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from guided import CORPORA, SOURCES, place_of
from targets import TARGETS

FILES, BYTES = 40, 20_000  # of a parser
OWN = str(SOURCES)


def main(names):
    for name in names or TARGETS:
        held = CORPORA / place_of(name).name
        places = (place_of(name) / "corpus", held)
        inputs = {file.read_bytes() for place in places for file in place.glob("*")}
        kept = chosen(TARGETS[name], inputs)
        held.mkdir(parents=True, exist_ok=True)
        for old in held.iterdir():
            old.unlink()
        for content in kept:
            (held / hashlib.sha256(content).hexdigest()[:16]).write_bytes(content)
        print(f"{name}: {len(kept)} of {len(inputs)} inputs, {sum(map(len, kept)):,} B")


def chosen(target, inputs):
    """Greedily, the one with most that is new first."""
    with tempfile.TemporaryDirectory() as folder:
        found = {
            i: ways(target, i, Path(folder)) for i in sorted(inputs, key=lambda i: (len(i), i))
        }
    for seed in target.seeds:  # they are read anyway
        known = found.pop(seed, set())
        found = {i: new for i, ways in found.items() if (new := ways - known)}
    kept = []
    while found and len(kept) < FILES:
        best = max(found, key=lambda i: len(found[i]))
        known = found.pop(best)
        if sum(map(len, kept)) + len(best) <= BYTES:
            kept.append(best)
            found = {i: new for i, ways in found.items() if (new := ways - known)}
    return kept


def ways(target, content, folder):
    """From line to line of our own files."""
    found = set()

    def entered(frame, what, _):
        file = frame.f_code.co_filename
        if not file.startswith(OWN):
            return None
        last = frame.f_lineno

        def stepped(frame, what, _):
            nonlocal last
            found.add((file, last, frame.f_lineno, what == "exception"))
            last = frame.f_lineno
            return stepped

        return stepped

    before = sys.gettrace()
    sys.settrace(entered)
    with contextlib.suppress(Exception):
        target.read(content, folder)
    sys.settrace(before)
    return found


if __name__ == "__main__":
    main(sys.argv[1:])

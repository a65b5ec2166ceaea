"""The progress of a long simulation, in a file, so that an interrupted run continues where it stopped.

Each line has the outcome of a chunk of seeds and the fingerprint of the source. Outcomes of another
version of the source are ignored.
"""

import hashlib
from pathlib import Path

import msgspec

import windlass


class Outcome(msgspec.Struct, frozen=True):
    """A chunk of seeds that was simulated, and its violations by seed."""

    first: int
    seeds: int
    failures: list[tuple[int, str]] = []
    source: str = ""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Outcome)


class Progress:
    def __init__(self, path: Path | None) -> None:
        """Without a path, outcomes are neither read nor stored."""
        self._path = path
        self._source = "" if path is None else _fingerprint()
        self._finished = {(each.first, each.seeds): each for each in self._read()}

    def outcome(self, seeds: range) -> Outcome | None:
        """Return the stored outcome of these seeds; None if they have to be simulated."""
        return self._finished.get((seeds.start, len(seeds)))

    def record(self, seeds: range, failures: list[tuple[int, str]]) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        line = _encoder.encode(Outcome(seeds.start, len(seeds), failures, self._source))
        with self._path.open("ab") as file:
            # An interrupted run may have left an incomplete line.
            file.write(b"\n" + line)

    def _read(self) -> list[Outcome]:
        if self._path is None or not self._path.exists():
            return []
        found = []
        for line in self._path.read_bytes().splitlines():
            try:
                outcome = _decoder.decode(line)
            except msgspec.DecodeError:
                continue
            if outcome.source == self._source:
                found.append(outcome)
        return found


def _fingerprint() -> str:
    """Return a hash of all modules, because each of them may change the outcome of a seed."""
    digest = hashlib.sha256()
    root = Path(windlass.__path__[0])
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]

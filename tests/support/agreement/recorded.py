"""The recorded cases: generated ones with the outcomes of the original operators, which `make test` replays.

tests/convert/recorded has one file per kind, with one case per line.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from agreement import generate
from agreement.cases import Case, Played

FOLDER: Final = Path(__file__).parents[2] / "convert" / "recorded"
COUNT: Final = 12
"""Recorded cases per kind. They are chosen so that they have as many features as possible."""
TIMED: Final = "activeDeadlineSeconds reached"
"""Cases with this feature are not recorded: how far they come depends on the speed of the machine."""


def kinds() -> list[str]:
    """Return the kinds with recorded cases."""
    return [kind for kind in generate.GENERATORS if _file(kind).exists()]


def read(kind: str) -> list[Played]:
    lines = _file(kind).read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Played) for line in lines]


def write(kind: str, played: Iterable[Played]) -> None:
    FOLDER.mkdir(exist_ok=True)
    chosen = chosen_for_features([each for each in played if TIMED not in each.case.features])
    _file(kind).write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in chosen))


def chosen_for_features(played: list[Played], count: int = COUNT) -> list[Played]:
    """Return the cases that add the most features to those before them, in the order of their numbers."""
    left, chosen = list(played), list[Played]()
    missing: set[str] = set()
    while left and len(chosen) < count:
        missing = missing or {feature for each in played for feature in each.case.features}
        best = max(left, key=lambda each: (len(missing & set(each.case.features)), -len(each.case.features)))
        missing -= set(best.case.features)
        left.remove(best)
        chosen.append(best)
    return sorted(chosen, key=lambda each: _number(each.case))


def _number(case: Case) -> int:
    return int(case.name.rpartition("-")[2])


def _file(kind: str) -> Path:
    return FOLDER / f"{kind.lower()}.jsonl"

"""The figures of all played cases, which docs/convert.md shows.

    python -m agreement.figures RESULTS…

Reads results of `agreement.run`, and writes the figures and the recorded cases of their kinds. A case that was played
several times counts with its last result.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from agreement import comparison, generate, recorded
from agreement.cases import Played
from agreement.run import Result

WANTED: Final = 200
"""Cases per kind."""
FILE: Final = recorded.FOLDER / "figures.json"


class Figures(msgspec.Struct, frozen=True):
    """What was played for a kind."""

    cases: int
    agree: int
    without_difference: int
    """Cases in which nothing differs, not even as intended."""
    with_retries: int
    repeated: int
    """Cases that were played more than once."""
    disagree: tuple[str, ...]
    """Names of the cases that do not agree."""
    features: dict[str, int]
    """Number of agreeing cases by feature."""
    rules: dict[str, int]
    """Number of agreeing cases by intended difference."""


def of(kind: str, results: Iterable[Result]) -> Figures:
    """Return the figures of the completely played cases of a kind."""
    played = [each for each in results if each.case.kind == kind and each.original and each.converted]
    last = {each.case.name: each for each in played}
    agreeing = [each for each in last.values() if not each.differences]
    rules: Counter[str] = Counter()
    for each in agreeing:
        rules.update(_rules(each))
    return Figures(
        cases=len(last),
        agree=len(agreeing),
        without_difference=sum(not _rules(each) for each in agreeing),
        with_retries=sum(each.original is not None and each.original.has_retries for each in last.values()),
        repeated=sum(count > 1 for count in Counter(each.case.name for each in played).values()),
        disagree=tuple(sorted(last.keys() - {each.case.name for each in agreeing})),
        features=generate.coverage(kind, (each.case for each in agreeing)),
        rules=dict(sorted(rules.items())),
    )


def _rules(result: Result) -> set[str]:
    """Return the intended differences of a case."""
    case, original, other = result.case, result.original, result.converted
    if original is None or other is None:
        return set()
    found = comparison.differences(original, other)
    return {
        next(rule.what for rule in comparison.RULES if rule.excuses(case, original, other, each))
        for each in found
    }


def read() -> Mapping[str, Figures]:
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, Figures]) if FILE.exists() else {}


def write(results: Iterable[Result]) -> None:
    """Write the figures and the recorded cases of the kinds of the results."""
    found = list(results)
    known = dict(read())
    for kind in {each.case.kind for each in found}:
        known[kind] = of(kind, found)
        last = {each.case.name: each for each in found if each.case.kind == kind and each.original}
        agreeing = (each for each in last.values() if each.converted and not each.differences)
        recorded.write(kind, (Played(each.case, each.original) for each in agreeing if each.original))
    ordered = {kind: known[kind] for kind in generate.GENERATORS if kind in known}
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n")


def table(figures: Mapping[str, Figures]) -> str:
    """Return the figures as a table for the documentation, and the features that were covered."""
    lines = [
        "| kind | cases | agree | without any difference | with retries | played again |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {kind} | {each.cases} | {each.agree} | {each.without_difference} "
        f"| {each.with_retries} ({each.with_retries / each.cases:.0%}) | {each.repeated} |"
        for kind, each in figures.items()
    ]
    few = [kind for kind, each in figures.items() if each.cases < WANTED]
    if few:
        lines += ["", f"Fewer than {WANTED} cases have been played so far: {', '.join(few)}."]
    for kind, each in figures.items():
        covered = ", ".join(f"{feature} ({count})" for feature, count in each.features.items())
        lines += ["", f"Agreeing cases of {kind} by policy field and outcome: {covered}."]
        if each.disagree:
            lines += ["", f"Not explained: {', '.join(each.disagree)}."]
    return "\n".join(lines)


def results_in(file: Path) -> list[Result]:
    return [msgspec.json.decode(line, type=Result) for line in file.read_bytes().splitlines()]


def main() -> None:
    write([result for name in sys.argv[1:] for result in results_in(Path(name))])


if __name__ == "__main__":
    main()

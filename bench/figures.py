"""The figures of a benchmark: printed with their targets and last values, and stored in bench/results.

As a program it lists the stored figures that regressed or miss their target; it measures nothing. The examples'
environment runs this module too, so it imports only msgspec and the standard library.
"""

import argparse
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

RESULTS = Path(__file__).parent / "results"
NOISE = 1.25
"""Factor by which a figure may differ from its last value without being reported."""
TIMES = ("ms", "s")


class Machine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cpu: str
    cores: int
    python: str
    kernel: str

    def __str__(self) -> str:
        return f"{self.cpu}, {self.cores} cores, Python {self.python}, {self.kernel}"


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Place and time of a measurement."""

    machine: Machine
    date: str
    load: float
    """Load average of the minute before."""


class Figure(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    what: str
    """Name with the size: the same name must always mean the same work."""
    value: float
    unit: str
    """Empty for a count, which must not change at all."""
    aim: float | None = None
    better: Literal["lower", "higher"] = "lower"
    noise: float = NOISE
    note: str = ""
    was: float | None = None
    was_elsewhere: bool = False
    """Whether the last value comes from another machine."""
    date: str = ""
    machine: Machine | None = None
    """Set if a later run left this figure out, so that they differ from those of the sheet."""


class Results(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    run: Run
    figures: list[Figure]

    def machine_of(self, figure: Figure) -> Machine:
        return figure.machine or self.run.machine


# Formatting a figure


def is_missed(figure: Figure) -> bool:
    if figure.aim is None:
        return False
    return figure.value > figure.aim if figure.better == "lower" else figure.value < figure.aim


def verdict(figure: Figure) -> str:
    """Return a word if the figure regressed, or if it is a count and changed; else nothing.

    If the last value was zero or negative there is no factor: the target decides.
    """
    if figure.was is None:
        return ""
    if not figure.unit:
        return "" if figure.value == figure.was else "CHANGED"
    if figure.was_elsewhere or figure.was <= 0:
        return ""
    is_lower_better = figure.better == "lower"
    low, high = (figure.was, figure.value) if is_lower_better else (figure.value, figure.was)
    is_worse = high > low * figure.noise
    if not is_worse:
        return ""
    return "SLOWER" if figure.unit in TIMES else "WORSE"


def line(figure: Figure) -> str:
    value = f"{shown(figure.value, figure.unit):>9} {figure.unit}"
    note = f"({figure.note})" if figure.note else ""
    rest = " ".join(filter(None, (_was(figure), note)))
    return f"  {figure.what:<64} {value:<15} {_aim(figure):<20} {rest}".rstrip()


def shown(value: float, unit: str) -> str:
    if not unit or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _aim(figure: Figure) -> str:
    if figure.aim is None:
        return ""
    sign = "≤" if figure.better == "lower" else "≥"
    mark = " MISSED" if is_missed(figure) else ""
    return f"aim {sign} {figure.aim:,g}{mark}"


def _was(figure: Figure) -> str:
    if figure.was is None:
        return ""
    can_have_factor = bool(figure.unit) and not figure.was_elsewhere and min(figure.was, figure.value) > 0
    factor = f"×{figure.value / figure.was:.2f}" if can_have_factor else ""
    change = " ".join(filter(None, (factor, verdict(figure))))
    return f"was {shown(figure.was, figure.unit)}" + (f", {change}" if change else "")


# Figures measured together


class Sheet:
    """The figures of one benchmark. Each is printed at once; only `save` changes the file."""

    def __init__(self, name: str, *, folder: Path = RESULTS, run: Run | None = None) -> None:
        self._file = folder / f"{name}.json"
        self._run = run or this_run()
        self._figures: dict[str, Figure] = {}
        _say(f"{name}: {self._run.machine}, load {self._run.load:.1f}")
        self._last = _last(self._file, self._run)
        self._before = {figure.what: figure for figure in self._last.figures}
        if self._last.run.machine != self._run.machine:
            _say(f"the last results come from another machine: {self._last.run.machine}")

    def title(self, text: str) -> None:
        _say(text)

    def add(
        self,
        what: str,
        value: float,
        unit: str,
        *,
        aim: float | None = None,
        better: Literal["lower", "higher"] = "lower",
        noise: float = NOISE,
        note: str = "",
    ) -> None:
        if what in self._figures:
            raise ValueError(f"two figures are named {what!r}: use unique names")
        kept = float(f"{value:.4g}") if unit else float(value)
        aim = (
            None if aim is None else float(aim)
        )  # rounded as stored, so that the file changes only if a figure does
        figure = Figure(what, kept, unit, aim, better, float(noise), note)
        old = self._before.get(what)
        if old is not None and old.unit == unit:
            is_elsewhere = self._last.machine_of(old) != self._run.machine
            figure = msgspec.structs.replace(figure, was=old.value, was_elsewhere=is_elsewhere)
        self._figures[what] = figure
        _say(line(figure))

    def save(self) -> None:
        """Store the figures. Those not measured in this run stay, with their place and time."""
        kept = {what: self._as_kept(figure) for what, figure in self._before.items()}
        results = Results(self._run, list((kept | self._figures).values()))
        self._file.parent.mkdir(exist_ok=True)
        new = self._file.with_suffix(".json.new")
        new.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
        new.replace(self._file)

    def _as_kept(self, figure: Figure) -> Figure:
        date, machine = figure.date or self._last.run.date, self._last.machine_of(figure)
        is_here = machine == self._run.machine
        return msgspec.structs.replace(figure, date=date, machine=None if is_here else machine)


def _say(text: str) -> None:
    print(text, flush=True)


def _last(file: Path, run: Run) -> Results:
    """Return the last results; empty if there are none or they are unreadable."""
    try:
        return read(file)
    except FileNotFoundError:
        pass
    except ValueError as error:
        _say(f"{error}; saving this run replaces it")
    return Results(run, [])


def read(file: Path) -> Results:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Results)
    except ValueError as error:
        raise ValueError(f"{file} does not contain figures in the current format: {error}") from error


def this_run() -> Run:
    machine = Machine(
        cpu=_cpu(),
        cores=os.cpu_count() or 1,
        python=platform.python_version(),
        kernel=f"{platform.system()} {platform.release()}",
    )
    return Run(machine, datetime.now(UTC).isoformat(timespec="seconds"), round(os.getloadavg()[0], 2))


def _cpu() -> str:
    """Return the CPU model, or the architecture if the kernel does not report it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [each.partition(":")[2].strip() for each in lines if each.startswith("model name")]
    return models[0] if models else platform.machine()


def argument_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of every benchmark."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--no-save", dest="save", action="store_false", help="only print, without updating bench/results"
    )
    return parser


# Summary of all sheets


def summary(folder: Path) -> Sequence[str]:
    lines, count, bad = [], 0, 0
    for file in sorted(folder.glob("*.json")):
        try:
            results = read(file)
        except ValueError as error:
            lines.append(f"{error}; the next saved run replaces it")
            continue
        marked = [figure for figure in results.figures if verdict(figure) or is_missed(figure)]
        count, bad = count + len(results.figures), bad + len(marked)
        if marked:
            lines += [f"{file.stem}, {results.run.date}:", *map(line, marked)]
    return [*lines, f"{count:,} figures are stored; {bad:,} of them regressed, changed or miss their target"]


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print("\n".join(summary(RESULTS)))


if __name__ == "__main__":
    main()

"""Apply known mutations to copies of the source, one at a time, and report which check detects each.

`tools/mutations.yaml` lists the mutations. Each is an edit of a source file with the checks that should detect it: a
few tests, then the Simulation (300 seeds). A mutation that no check detects has survived: a test is missing. The
unmutated source runs first and has to pass every check.
"""

import argparse
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[1]
MUTATIONS = ROOT / "tools" / "mutations.yaml"
COPIED = ("src", "tests", "tools", "examples", "pyproject.toml")
SEEDS = 300
WORKERS = 2
LONGEST_CHECK_SEC = 600
"""Time limit of a check: a mutation may cause an endless loop, which counts as detected."""
MEMORY_BYTES = 4 << 30
"""Limit of the address space of a check, for the same reason."""
LONGEST_VIOLATION = 80
SURVIVED = "SURVIVED"

PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:schemathesis", "-p", "no:cacheprovider")
PYTEST_FAILED = 1
PYTEST_INTERRUPTED = 2
"""Exit code of pytest if a module could not be imported."""


class MutationError(Exception):
    """The list of mutations does not fit the source. The message names the entry to update."""


class Mutation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One mutation."""

    name: str
    file: str
    """Path below `src/windlass`."""
    old: str
    """Whole lines that occur exactly once in the file, at any indentation."""
    new: str
    tests: tuple[str, ...] = ()
    """Tests that should detect it: paths below `tests`, with `::name` for a single test."""
    seeds: bool = True
    """Whether the Simulation runs the mutated code."""
    statement: str | int = ""
    """Number of the statement in docs/behaviours.md that the mutation violates."""


class Outcome(msgspec.Struct, frozen=True):
    mutation: Mutation
    caught_by: str
    """Name of the check that detected the mutation; `SURVIVED` if none did."""
    seconds: float


def read_mutations(path: Path = MUTATIONS) -> tuple[Mutation, ...]:
    mutations = msgspec.yaml.decode(path.read_bytes(), type=tuple[Mutation, ...])
    names = [mutation.name for mutation in mutations]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise MutationError(f"two mutations have the same name: {', '.join(twice)}")
    unchecked = [mutation.name for mutation in mutations if not mutation.seeds and not mutation.tests]
    if unchecked:
        raise MutationError(f"no check is named for: {', '.join(unchecked)}")
    return mutations


def mutated(source: str, mutation: Mutation) -> str:
    """Return the mutated source. Raise MutationError unless its old text occurs exactly once."""
    lines, old, new = source.splitlines(), _lines(mutation.old), _lines(mutation.new)
    places = [
        (start, indent)
        for start in range(len(lines) - len(old) + 1)
        if (indent := _indent(lines[start : start + len(old)], old)) is not None
    ]
    if len(places) != 1:
        raise MutationError(
            f"the mutation {mutation.name!r} no longer applies: its old text occurs {len(places)} times in "
            f"src/windlass/{mutation.file}; update it"
        )
    ((start, indent),) = places
    lines[start : start + len(old)] = [indent + line if line else line for line in new]
    text = "\n".join(lines) + "\n"
    try:
        compile(text, mutation.file, "exec")
    except SyntaxError as error:
        raise MutationError(
            f"the mutation {mutation.name!r} is not valid Python: {error}; update it"
        ) from error
    return text


def _lines(text: str) -> list[str]:
    return textwrap.dedent(text).strip("\n").splitlines()


def _indent(found: Sequence[str], expected: Sequence[str]) -> str | None:
    """Return the indentation at which the lines match; None if they do not."""
    indent = found[0].removesuffix(expected[0])
    is_indented = found[0].endswith(expected[0]) and not indent.strip()
    is_found = is_indented and all(
        line == (indent + want if want else "") for line, want in zip(found, expected, strict=True)
    )
    return indent if is_found else None


def apply(root: Path, mutation: Mutation) -> None:
    path = root / "src" / "windlass" / mutation.file
    text = mutated(path.read_text(), mutation)
    # The file is a hard link to the original, which must not change.
    path.unlink()
    path.write_text(text)
    # Python considers bytecode current if size and second of the source are the same.
    for bytecode in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        bytecode.unlink()


def require_applicable(root: Path, mutations: Sequence[Mutation]) -> None:
    """Raise MutationError unless every mutation fits the source."""
    for mutation in mutations:
        path = root / "src" / "windlass" / mutation.file
        mutated(path.read_text() if path.is_file() else "", mutation)


def copy_tree(source: Path, target: Path) -> None:
    target.mkdir()
    for name in COPIED:
        entry = source / name
        if entry.is_dir():
            shutil.copytree(entry, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif entry.exists():
            shutil.copy2(entry, target / name)


# Checks


def noticed_by(root: Path, *, seeds: bool, tests: Sequence[str]) -> str:
    """Run the checks on a tree. Return the first that fails, or nothing if all pass."""
    _require_import_from(root)
    # The tests first: they take seconds, the Simulation up to a minute.
    return (_noticed_by_tests(root, tests) if tests else "") or (
        _noticed_by_simulation(root) if seeds else ""
    )


def _require_import_from(root: Path) -> None:
    """Check that the tests import the copy and not the installed package."""
    _, output = _run(root, "-c", "import windlass; print(windlass.__file__)")
    if not Path(output.strip()).is_relative_to(root):
        raise MutationError(f"the checks would import {output.strip()} instead of the copy in {root}")


def _noticed_by_simulation(root: Path) -> str:
    code, output = _run(root, "-m", "windlass.simulate.play", "--fail-fast", "--seeds", str(SEEDS))
    if code == 0:
        return ""
    if code is None:
        return f"simulation: no end within {LONGEST_CHECK_SEC} s"
    found = re.search(r"^seed (\d+): (.*)", output, re.MULTILINE)
    if found is None:
        return f"simulation: {_last_line(output)}"
    return f"simulation seed {found[1]}: {textwrap.shorten(found[2], LONGEST_VIOLATION, placeholder='…')}"


def _noticed_by_tests(root: Path, tests: Sequence[str]) -> str:
    code, output = _run(root, *PYTEST, *(f"tests/{test}" for test in tests))
    if code == 0:
        return ""
    if code is None:
        return f"tests: no end within {LONGEST_CHECK_SEC} s"
    if code < 0:
        return f"tests: ended by signal {-code}"
    if code not in (PYTEST_FAILED, PYTEST_INTERRUPTED):
        raise MutationError(f"pytest cannot run {', '.join(tests)}:\n{output}")
    found = re.search(r"^(?:FAILED|ERROR) tests/(.*?)(?: - .*)?$", output, re.MULTILINE)
    return found[1] if found else f"tests: {_last_line(output)}"


def _last_line(output: str) -> str:
    return next(reversed(output.strip().splitlines()), "no output")


def _run(root: Path, *arguments: str) -> tuple[int | None, str]:
    """Run Python in a tree. Return its exit code (None after a timeout) and its output."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with subprocess.Popen(  # noqa: S603
        [sys.executable, *arguments],
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        try:
            output, _ = process.communicate(timeout=LONGEST_CHECK_SEC)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                return None, ""
            raise
    return process.returncode, output


# The run


def check_baseline(root: Path, mutations: Sequence[Mutation]) -> None:
    """Raise MutationError unless the unmutated source passes every check."""
    tests = sorted({test for mutation in mutations for test in mutation.tests})
    failed = noticed_by(root, seeds=any(mutation.seeds for mutation in mutations), tests=tests)
    if failed:
        raise MutationError(f"the unmutated source fails: {failed}; fix that first")


def outcome_of(mutation: Mutation, pristine: Path, folder: Path) -> Outcome:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=folder) as parent:
        root = Path(parent) / "tree"
        # Hard links take a tenth of the time of copies and keep valid bytecode.
        shutil.copytree(pristine, root, copy_function=os.link)
        apply(root, mutation)
        caught_by = noticed_by(root, seeds=mutation.seeds, tests=mutation.tests)
    return Outcome(mutation, caught_by or SURVIVED, time.monotonic() - started)


def run(root: Path, mutations: Sequence[Mutation]) -> int:
    """Print a table of checks and mutations. Return the number of mutations that survived."""
    require_applicable(root, mutations)
    survived = 0
    with tempfile.TemporaryDirectory(prefix="windlass-mutate-") as name, ThreadPoolExecutor(WORKERS) as pool:
        folder = Path(name).resolve()
        pristine = folder / "pristine"
        copy_tree(root, pristine)
        check_baseline(pristine, mutations)
        width = max(len(mutation.name) for mutation in mutations)
        areas = max(len(_area(mutation)) for mutation in mutations)
        print(
            f"{'mutation':{width}}  {'statement':9}  {'area':{areas}}  {'seconds':>7}  caught by", flush=True
        )
        work = partial(outcome_of, pristine=pristine, folder=folder)
        for outcome in pool.map(work, mutations):
            mutation = outcome.mutation
            survived += outcome.caught_by == SURVIVED
            print(
                f"{mutation.name:{width}}  {mutation.statement!s:9}  {_area(mutation):{areas}}  "
                f"{outcome.seconds:7.1f}  {outcome.caught_by}",
                flush=True,
            )
    return survived


def _area(mutation: Mutation) -> str:
    return mutation.file.removesuffix(".py")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="Run mutations whose name or file has TEXT."
    )
    only = parser.parse_args(arguments).only
    started = time.monotonic()
    try:
        mutations = [
            mutation for mutation in read_mutations() if only in mutation.name or only in mutation.file
        ]
        if not mutations:
            raise MutationError(f"no mutation has {only!r} in its name or its file")
        survived = run(ROOT, mutations)
    except MutationError as error:
        print(error, file=sys.stderr)
        return 1
    caught, seconds = len(mutations) - survived, time.monotonic() - started
    print(f"{caught} of {len(mutations)} mutations caught in {seconds:.0f} s")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())

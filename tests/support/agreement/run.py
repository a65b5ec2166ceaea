"""Plays cases under the original operators and under Windlass, many at once on one API server.

    python -m agreement.run --kind TFJob --count 20 --results FILE

Appends one JSON line per case. Cases that agree according to the file are not played again.
"""

import argparse
import asyncio
import contextlib
import functools
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from agreement import comparison, converted, generate, originals, subjects
from agreement.cases import Case, Outcome
from agreement.hollow import Hollow
from agreement.player import NotSettledError, Player, Submit
from agreement.subjects import Subject
from windlass.client.errors import ClientError
from windlass.kubeapi import access, requests
from windlass.kubeapi.errors import ApiError
from windlass.kubeapi.resources import JOBS, Resource
from windlass.kubeapi.transport import Transport

QUIET: Final = 1.5
"""Seconds without a change after which a settled controller is believed. The Job controller waits for more changes
for a second."""

CONCURRENT: Final[dict[str, int]] = {"MPIJob": 8}
"""The mpi-operator processes at most 10 changes per second."""
DEFAULT_CONCURRENT: Final = 40

ORIGINAL: Final = "original"
CONVERTED: Final = "windlass"


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    case: Case
    original: Outcome | None = None
    converted: Outcome | None = None
    errors: tuple[str, ...] = ()

    @property
    def differences(self) -> list[str]:
        """Return what does not agree, or could not be played. Empty if one side was not played."""
        if self.original is None or self.converted is None:
            return list(self.errors)
        return [str(each) for each in comparison.unexpected(self.case, self.original, self.converted)]


def original_submit(hollow: Hollow, subject: Subject, case: Case) -> Submit:
    async def submit(namespace: str) -> None:
        for body in case.objects:
            request = requests.create(subject.resource, namespace, msgspec.json.encode(body))
            await hollow.send(request)

    return submit


def _new_name(case: Case) -> str:
    """Return the name of a new namespace."""
    return f"{case.name}-{secrets.token_hex(4)}"


async def play_original(hollow: Hollow, case: Case, quiet: float = QUIET) -> Outcome:
    subject = subjects.ORIGINALS[case.kind]()
    player = Player(hollow, subject, _new_name(case), case.job["metadata"]["name"], quiet)
    return await player.play(case, original_submit(hollow, subject, case))


async def play_converted(hollow: Hollow, case: Case, quiet: float = QUIET) -> Outcome:
    subject = converted.WindlassSubject(case)
    player = Player(hollow, subject, _new_name(case), case.job["metadata"]["name"], quiet)
    return await player.play(case, converted.submit_converted(hollow, case))


@contextlib.asynccontextmanager
async def hollow_cluster(
    kubeconfig: Path, watched: Iterable[Resource], stop_seconds: float = QUIET
) -> AsyncIterator[Hollow]:
    async with Transport(await access.load(kubeconfig=str(kubeconfig)), user_agent="hollow") as transport:
        hollow = Hollow(transport, watched, stop_seconds)
        running = asyncio.create_task(hollow.run())
        try:
            yield hollow
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running


Play = Callable[[Hollow, Case], Coroutine[Any, Any, Outcome]]
PLAYS: Final[dict[str, Callable[..., Coroutine[Any, Any, Outcome]]]] = {
    ORIGINAL: play_original,
    CONVERTED: play_converted,
}


async def play_all(
    hollow: Hollow,
    cases: list[Case],
    plays: Mapping[str, Play],
    concurrent: int = DEFAULT_CONCURRENT,
    report: Callable[[Result], None] = lambda _: None,
) -> list[Result]:
    """Play each case under all contenders, at most `concurrent` of a kind at a time. `report` is called with each
    result at once."""
    limits = {
        kind: asyncio.Semaphore(min(concurrent, CONCURRENT.get(kind, concurrent))) for kind in _kinds(cases)
    }

    async def played(case: Case) -> Result:
        outcomes: dict[str, Outcome] = {}
        errors = []
        async with limits[case.kind]:
            for name, play in plays.items():
                try:
                    outcomes[name] = await play(hollow, case)
                except (NotSettledError, ApiError, ClientError) as error:
                    errors.append(f"{name}: {error}")
        result = Result(case, outcomes.get(ORIGINAL), outcomes.get(CONVERTED), tuple(errors))
        report(result)
        return result

    return await asyncio.gather(*(played(case) for case in cases))


def _kinds(cases: Iterable[Case]) -> set[str]:
    return {case.kind for case in cases}


async def run(
    kubeconfig: Path,
    cases: list[Case],
    sides: Collection[str] = tuple(PLAYS),
    quiet: float = QUIET,
    concurrent: int = DEFAULT_CONCURRENT,
    report: Callable[[Result], None] = lambda _: None,
) -> list[Result]:
    watched = {subjects.ORIGINALS[case.kind]().resource for case in cases} | {JOBS}
    plays = {name: functools.partial(play, quiet=quiet) for name, play in PLAYS.items() if name in sides}
    async with contextlib.AsyncExitStack() as stack:
        if CONVERTED in sides:
            found = await access.load(kubeconfig=str(kubeconfig))
            transport = await stack.enter_async_context(Transport(found, user_agent="installer"))
            await stack.enter_async_context(converted.controller(transport, found))
            watched.add(converted.WindlassSubject.resource)
        hollow = await stack.enter_async_context(hollow_cluster(kubeconfig, watched, quiet))
        return await play_all(hollow, cases, plays, concurrent, report)


def agreeing_in(results: Path) -> set[str]:
    """Return the names of the cases that agree according to a file."""
    if not results.exists():
        return set()
    found = (msgspec.json.decode(line, type=Result) for line in results.read_bytes().splitlines())
    return {each.case.name for each in found if each.original and each.converted and not each.differences}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kind", action="append", choices=tuple(generate.GENERATORS), required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", action="append", default=[], help="only these cases")
    parser.add_argument("--side", action="append", choices=(ORIGINAL, CONVERTED), help="default: both")
    parser.add_argument("--kubeconfig", type=Path, help="a server with the operators (default: start one)")
    parser.add_argument("--quiet", type=float, default=QUIET, help="seconds without a change after each step")
    parser.add_argument("--concurrent", type=int, default=DEFAULT_CONCURRENT)
    parser.add_argument("--results", type=Path, required=True)
    arguments = parser.parse_args()
    done = agreeing_in(arguments.results)
    cases = [
        case
        for kind in arguments.kind
        for case in generate.cases(kind, arguments.count, arguments.seed)
        if (case.name in arguments.case if arguments.case else case.name not in done)
    ]
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(arguments.results.open("ab"))

        def report(result: Result) -> None:
            file.write(msgspec.json.encode(result) + b"\n")
            file.flush()
            steps = " ".join(map(str, result.case.steps))
            print(result.case.name, steps, *result.differences, sep="\n    ", flush=True)

        named = arguments.kubeconfig or stack.enter_context(originals.served(arguments.kind)).kubeconfig
        sides = arguments.side or tuple(PLAYS)
        asyncio.run(run(named, cases, sides, arguments.quiet, arguments.concurrent, report))


if __name__ == "__main__":
    main()

"""Plays cases under the original operators and under Windlass, many at once on one API server.

    python -m agreement.run --kind TFJob --count 20 --results FILE

Writes one JSON line per case.
"""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from agreement import generate, originals, subjects
from agreement.cases import Case, Outcome
from agreement.hollow import Hollow
from agreement.player import NotSettledError, Player, Submit
from agreement.subjects import Subject
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


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    case: Case
    original: Outcome | None = None
    converted: Outcome | None = None
    errors: tuple[str, ...] = ()


def original_submit(hollow: Hollow, subject: Subject, case: Case) -> Submit:
    async def submit(namespace: str) -> None:
        for body in case.objects:
            request = requests.create(subject.resource, namespace, msgspec.json.encode(body))
            await hollow.transport.send(request)

    return submit


async def play_original(hollow: Hollow, case: Case, quiet: float = QUIET) -> Outcome:
    subject = subjects.ORIGINALS[case.kind]()
    player = Player(hollow, subject, f"{case.name}-original", case.job["metadata"]["name"], quiet)
    return await player.play(case, original_submit(hollow, subject, case))


Play = Callable[[Case], "asyncio.Future[Outcome]"]


@contextlib.asynccontextmanager
async def hollow_cluster(kubeconfig: Path, watched: Iterable[Resource]) -> AsyncIterator[Hollow]:
    async with Transport(await access.load(kubeconfig=str(kubeconfig)), user_agent="hollow") as transport:
        hollow = Hollow(transport, watched)
        running = asyncio.create_task(hollow.run())
        try:
            yield hollow
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running


async def play_all(hollow: Hollow, cases: list[Case]) -> list[Result]:
    limits = {
        kind: asyncio.Semaphore(CONCURRENT.get(kind, DEFAULT_CONCURRENT)) for kind in generate.GENERATORS
    }
    done = 0

    async def played(case: Case) -> Result:
        nonlocal done
        async with limits[case.kind]:
            try:
                original = await play_original(hollow, case)
                result = Result(case, original)
            except (NotSettledError, ApiError) as error:
                result = Result(case, errors=(f"original: {error}",))
        done += 1
        if done % 10 == 0 or result.errors:
            print(f"{done} of {len(cases)} {' '.join(result.errors)}", file=sys.stderr, flush=True)
        return result

    return await asyncio.gather(*(played(case) for case in cases))


async def run(kubeconfig: Path, cases: list[Case]) -> list[Result]:
    watched = {subjects.ORIGINALS[case.kind]().resource for case in cases} | {JOBS}
    async with hollow_cluster(kubeconfig, watched) as hollow:
        return await play_all(hollow, cases)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kind", action="append", choices=tuple(generate.GENERATORS), required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", action="append", default=[], help="only these cases")
    parser.add_argument("--results", type=Path, required=True)
    arguments = parser.parse_args()
    cases = [
        case
        for kind in arguments.kind
        for case in generate.cases(kind, arguments.count, arguments.seed)
        if not arguments.case or case.name in arguments.case
    ]
    with originals.served(arguments.kind) as api:
        results = asyncio.run(run(api.kubeconfig, cases))
    arguments.results.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in results))


if __name__ == "__main__":
    main()

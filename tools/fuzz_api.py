"""Fuzz the embedded API server and check that it stays correct.

    python tools/fuzz_api.py                          about a minute
    python tools/fuzz_api.py --seconds 600 --seed 7   longer, with other requests
    python tools/fuzz_api.py --serve                  a server to replay the requests of a fault

The server must never fail (5xx), hang, exit, respond in a form that is not the API's, or lose or corrupt stored
objects: at the end everything is read in all forms, and again after a kill and a restart. The same seed makes the same
choices; their number and the interleaving of threads depend on the machine.

Print the numbers of requests and, for every fault, a shell command that repeats the request. Exit with 1 if there is
one. All files are removed.
"""

import argparse
import contextlib
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import programs  # next to this file
from fuzzing import integrity, lifecycles, objects, patches, queries, raw, server, values, wire, writes
from fuzzing.session import Finding, Session
from fuzzing.wire import Line, Request

Part = Callable[[Session, Line, Random], None]

SHARES = {
    "writes": 0.2,
    "patches": 0.15,
    "queries": 0.1,
    "raw bytes": 0.05,
    "by OpenAPI": 0.35,
    "lifecycles": 0.15,
}
"""Share of the time of each part, in order: writes before reads."""

_DEEPEST = 20_000
"""Recursion limit for encoding and decoding deeply nested values."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60, help="duration in seconds (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random requests")
    parser.add_argument("--only", action="append", choices=SHARES, help="run only this part; may be repeated")
    parser.add_argument("--serve", action="store_true", help="only serve, until Ctrl-C")
    options = parser.parse_args()
    sys.setrecursionlimit(_DEEPEST)
    with programs.cleaning_up_on_sigterm(), _working_folder() as folder:
        if options.serve:
            return _serve(folder)
        session = _fuzzed(folder, options.only or list(SHARES), options.seconds, options.seed)
    print(f"\nThe slowest response took {session.slowest[0]:.1f} s: {session.slowest[1]}")
    print(f"{session.counts.total()} requests, {len(session.findings)} faults")
    for number, finding in enumerate(session.findings.values(), 1):
        print(_shown(number, finding))
    return 1 if session.findings else 0


@contextlib.contextmanager
def _working_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="windlass-fuzz-") as name:
        # Hypothesis stores its database in the working directory by default.
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(Path(name) / "hypothesis")
        yield Path(name)


def _parts() -> dict[str, Part]:
    from fuzzing import shaped  # slow to import, and only after the working directory has been chosen

    return {
        "writes": writes.run,
        "patches": patches.run,
        "queries": queries.run,
        "raw bytes": raw.run,
        "by OpenAPI": shaped.run,
        "lifecycles": lifecycles.run,
    }


def _fuzzed(folder: Path, chosen: list[str], seconds: float, seed: int) -> Session:
    parts = _parts()
    with server.serving(folder) as served, wire.connected(served.local) as line:
        session = _prepared(served, line)
        for name in chosen:
            share = SHARES[name] / sum(SHARES[one] for one in chosen)
            session.begin(name, seconds * share)
            parts[name](session, line, values.generator(seed, name))
            session.check_log()
            _report_part(session)
        session.begin("integrity", 0)
        kept = integrity.check(session, line) if session.check_alive() else None
        session.check_log()
        _report_part(session)
    if kept is not None:
        _start_again(folder, session, kept)
    return session


def _start_again(folder: Path, session: Session, kept: integrity.Objects) -> None:
    """Restart the killed server. All acknowledged writes must be present."""
    session.begin("after a kill", 0)
    try:
        with server.serving(folder) as served, wire.connected(served.local) as line:
            session.move_to(served)
            integrity.compare(session, kept, integrity.everything(session, line))
            _report_part(session)
    except programs.StartError as error:
        session.find("the server cannot be restarted", str(error))


def _prepared(served: server.Server, line: Line) -> Session:
    """Prepare a namespace and custom resource definitions."""
    given = [
        ("/api/v1/namespaces", {"metadata": {"name": "fuzz"}}),
        *((objects.DEFINITIONS, one) for one in objects.definitions()),
    ]
    for path, obj in given:
        headers = (("Content-Type", "application/json"),)
        answer = line.ask(Request("POST", path, headers, wire.json_body(obj)))
        if answer.code != 201:
            raise programs.StartError(f"a valid object was rejected: {answer.body.decode()}")
    return Session(served, line)


def _serve(folder: Path) -> int:
    with server.serving(folder) as served, wire.connected(served.local) as line:
        _prepared(served, line)
        print(f"export SOCKET={served.socket}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            served.running.process.wait()
    return 0


def _report_part(session: Session) -> None:
    own = {key[1:]: count for key, count in session.counts.items() if key[0] == session.part}
    print(f"{session.part}: {sum(own.values())}", flush=True)
    for method in sorted({method for method, _ in own}):
        codes = Counter({code: count for (one, code), count in own.items() if one == method})
        print(f"  {method:8}" + "  ".join(f"{code}: {codes[code]}" for code in sorted(codes)), flush=True)


def _shown(number: int, finding: Finding) -> str:
    lines = [
        f"\nFault {number}, in {finding.part}, {finding.times} times: {finding.fault}",
        f"  {finding.line}",
    ]
    lines += [f"  answer: {finding.answer}"] if finding.answer else []
    lines += [f"  object: {finding.afterwards}"] if finding.afterwards else []
    lines += [f"  log: {finding.log}"] if finding.log else []
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

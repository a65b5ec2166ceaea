"""Measure the CPU time of the live view of `windlass run`: 200 tasks that each write a line per second and change now
and then.

Events arrive as JSON as in a run, and the terminal is a real one. The result is CPU time of this process per second,
without the reader of the terminal.
"""

import asyncio
import os
import random
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import Any

import msgspec

from figures import Sheet, argument_parser  # next to this file
from windlass.cli.terminal.live_terminal import Screen, Size
from windlass.cli.terminal.output import Style
from windlass.client import usage
from windlass.render.manifest import Manifest
from windlass.runner.report import LogLines, ProgressLine, Source, Topic
from windlass.wire import codec, progress

TASKS = 200
AIM_PERCENT = 10.0
CHANGES_SECONDS = 0.5
"""The controller writes a status at most this often."""
USAGE_SECONDS = 2.0
SIZES = {"a terminal that shows them all": Size(180, TASKS + 10), "80 by 24": Size(80, 24)}
READER = """
import os
read = 0
try:
    while piece := os.read(0, 65536):
        read += len(piece)
except OSError:  # the other side is closed
    pass
print(read)
"""
NOW = "2026-01-02T03:04:05Z"


def framework(states: list[str]) -> dict[str, Any]:
    tasks = [
        {
            "index": index,
            "startTime": NOW,
            "transitionTime": NOW,
            "state": state,
            "attemptStatus": {
                "id": 0,
                "startTime": NOW,
                "podName": f"job-worker-{index}",
                "podUID": f"{index:032}",
                "podNodeName": "windlass-0",
                "podIP": "10.0.0.1",
                "podHostIP": "10.0.0.2",
            },
        }
        for index, state in enumerate(states)
    ]
    pod = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    return {
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {"taskRoles": [{"name": "worker", "taskNumber": len(states), "task": {"pod": pod}}]},
        "status": {
            "startTime": NOW,
            "transitionTime": NOW,
            "state": "AttemptRunning",
            "attemptStatus": {
                "startTime": NOW,
                "configMapName": "job-attempt",
                "taskRoleStatuses": [{"name": "worker", "taskStatuses": tasks}],
            },
        },
    }


def metrics() -> bytes:
    items = [
        {
            "metadata": {"name": f"job-worker-{index}", "namespace": "default"},
            "containers": [
                {"name": "main", "usage": {"cpu": f"{random.randrange(10**9)}n", "memory": "512Ki"}}
            ],
        }
        for index in range(TASKS)
    ]
    return msgspec.json.encode({"items": items})


def prepare_updates() -> list[tuple[bytes, bytes]]:
    """Prepare the events before measuring."""
    states = ["AttemptRunning"] * TASKS
    prepared = []
    for _ in range(20):
        for index in random.sample(range(TASKS), 5):
            states[index] = random.choice(("AttemptRunning", "AttemptPreparing", "AttemptDeleting"))
        prepared.append((msgspec.json.encode(framework(states)), metrics()))
    return prepared


async def send_updates(
    screen: Screen, job: Manifest, seconds: float, updates: list[tuple[bytes, bytes]]
) -> None:
    loop = asyncio.get_running_loop()
    screen.attach(loop, lambda: None)
    end = loop.time() + seconds

    async def changes() -> None:
        for number in range(10**9):
            screen.update_status(job, codec.decode_framework(updates[number % len(updates)][0]))
            if number % round(USAGE_SECONDS / CHANGES_SECONDS) == 0:
                screen.update_usage(usage.decode(updates[number % len(updates)][1]))
            await asyncio.sleep(CHANGES_SECONDS)

    async def lines() -> None:
        for number in range(10**9):
            task, step = f"worker-{number % TASKS}", number // TASKS
            line = (
                f"windlass progress {step}/1000 loss=0.{number % 1000:03}" if number % 2 else f"line {number}"
            )
            now = datetime.now(UTC)
            screen.report(LogLines(Topic.LOG, now, task, "main", line.encode()))
            found = progress.parse_line(line)
            if found is not None:
                screen.report(
                    ProgressLine(Topic.PROGRESS, now, task, step, found.total, found.values, Source.LOG, 12.0)
                )
            if number % 10 == 9:
                await asyncio.sleep(10 / TASKS)

    work = [asyncio.create_task(changes()), asyncio.create_task(lines())]
    await asyncio.sleep(end - loop.time())
    for each in work:
        each.cancel()
    await asyncio.gather(*work, return_exceptions=True)


def measured(size: Size, seconds: float) -> tuple[float, int]:
    """Return the percentage of a core and the bytes per second."""
    updates = prepare_updates()
    roles = [{"name": "worker", "taskNumber": TASKS}]
    job = Manifest({"metadata": {"name": "job", "namespace": "default"}, "spec": {"taskRoles": roles}})
    master, slave = os.openpty()
    with subprocess.Popen([sys.executable, "-c", READER], stdin=master, stdout=subprocess.PIPE) as terminal:  # noqa: S603
        os.close(master)
        with open(slave, "wb") as stream:  # noqa: PTH123 — a descriptor
            screen = Screen(stream, [job], Style(width=10), has_colours=True, size=lambda: size)
            began, used = time.monotonic(), time.process_time()
            asyncio.run(send_updates(screen, job, seconds, updates))
            percent = 100 * (time.process_time() - used) / (time.monotonic() - began)
            screen.finish()
        written = int(terminal.communicate()[0])
    return percent, round(written / seconds)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    random.seed(1)
    sheet = Sheet("live_view")
    sheet.title("The live view of tasks that each write a line a second:")
    for name, size in SIZES.items():
        percent, written = measured(size, arguments.seconds)
        what = f"{TASKS} tasks, {arguments.seconds:g} s, {name}"
        sheet.add(f"{what}: of one core", percent, "%", aim=AIM_PERCENT)
        sheet.add(f"{what}: written", written / 1024, "KiB/s")
    if arguments.save:
        sheet.save()


if __name__ == "__main__":
    main()

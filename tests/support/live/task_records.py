"""Records that tasks write into a folder of the node, which outlives them.

A task holds a file lock of its own name while one of its processes lives; the kernel releases it. A task that finds its
lock held runs concurrent_runs at once.
"""

import contextlib
import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from live import jobs

from conformance.client import Json

MOUNT: Final = "/record"
_PREAMBLE: Final = """\
me=$FC_FRAMEWORK_NAMESPACE/$FC_FRAMEWORK_NAME-$FC_TASKROLE_NAME-$FC_TASK_INDEX
attempt=$FC_FRAMEWORK_ATTEMPT_ID/$FC_TASK_ATTEMPT_INSTANCE_UID
mkdir -p /record/locks/$FC_FRAMEWORK_NAMESPACE
exec 9>>/record/locks/$me
flock --nonblock 9 || echo "$me $attempt" >>/record/concurrent_runs
echo "start $me $attempt" >>/record/log
trap 'echo "end $me $attempt $?" >>/record/log' EXIT
"""

FOREVER: Final = "trap 'exit 143' TERM; while :; do sleep 0.2; done"
"""A script that ends on SIGTERM with a failure code."""


class Records:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def role(self, name: str = "worker", tasks: int = 1, script: str = "true", **more: Any) -> Json:
        """Return a role of recording tasks. `more` are arguments of `jobs.role`."""
        spec = dict(more.pop("pod_spec", {}))
        container = dict(spec.pop("container", {}))
        container["volumeMounts"] = [{"name": "record", "mountPath": MOUNT}]
        volume = {"name": "record", "hostPath": {"path": str(self._folder), "type": "Directory"}}
        whole = {**spec, "volumes": [volume], "container": container}
        return jobs.role(name, tasks, _PREAMBLE + script, pod_spec=whole, **more)

    def until_open(self, gate: str) -> str:
        """Return a script that runs until the test opens the gate."""
        return f"trap 'exit 143' TERM; until [ -e {MOUNT}/open-{gate} ]; do sleep 0.2; done"

    def open(self, gate: str) -> None:
        (self._folder / f"open-{gate}").touch()

    def concurrent_runs(self) -> list[str]:
        """Return the tasks that ran at the same time as another attempt of theirs."""
        return self._lines("concurrent_runs")

    def starts(self, namespace: str, framework: str = "") -> list[str]:
        """Return one line per start of a task."""
        return [line for line in self._lines("log") if line.startswith(f"start {namespace}/{framework}")]

    def log(self) -> str:
        return "\n".join(self._lines("log"))

    def running(self, namespace: str) -> list[str]:
        """Return the tasks with a living process."""
        return [lock.name for lock in (self._folder / "locks" / namespace).glob("*") if _is_held(lock)]

    def _lines(self, name: str) -> list[str]:
        path = self._folder / name
        return path.read_text().splitlines() if path.exists() else []


def _is_held(lock: Path) -> bool:
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextlib.contextmanager
def kept() -> Iterator[Records]:
    """Yield records in a folder that the node shares with the host."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-records-", dir="/var/tmp"))
    folder.chmod(0o777)
    try:
        yield Records(folder)
    finally:
        shutil.rmtree(folder)

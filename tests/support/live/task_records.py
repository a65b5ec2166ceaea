"""What tasks write down about themselves, in a folder of the node that outlives them.

A task holds a lock of its own name for as long as one of its processes lives. The kernel gives it back, however they
end. So a task that finds its lock held runs twice at once, whatever Windlass and Kubernetes believe.
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
flock --nonblock 9 || echo "$me $attempt" >>/record/twice
echo "start $me $attempt" >>/record/log
trap 'echo "end $me $attempt $?" >>/record/log' EXIT
"""

FOREVER: Final = "trap 'exit 143' TERM; while :; do sleep 0.2; done"
"""Ends when it is asked to, with the code of one who did not expect it."""


class Records:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def role(self, name: str = "worker", tasks: int = 1, script: str = "true", **more: Any) -> Json:
        """Of tasks that record. `more` is what `jobs.role` takes besides."""
        spec = dict(more.pop("pod_spec", {}))
        container = dict(spec.pop("container", {}))
        container["volumeMounts"] = [{"name": "record", "mountPath": MOUNT}]
        volume = {"name": "record", "hostPath": {"path": str(self._folder), "type": "Directory"}}
        whole = {**spec, "volumes": [volume], "container": container}
        return jobs.role(name, tasks, _PREAMBLE + script, pod_spec=whole, **more)

    def until_open(self, gate: str) -> str:
        """The script of a task that goes on until the test lets it end."""
        return f"trap 'exit 143' TERM; until [ -e {MOUNT}/open-{gate} ]; do sleep 0.2; done"

    def open(self, gate: str) -> None:
        (self._folder / f"open-{gate}").touch()

    def twice(self) -> list[str]:
        """Tasks that ran while another attempt of theirs did."""
        return self._lines("twice")

    def starts(self, namespace: str, framework: str = "") -> list[str]:
        """One line for each time that a task was started."""
        return [line for line in self._lines("log") if line.startswith(f"start {namespace}/{framework}")]

    def log(self) -> str:
        return "\n".join(self._lines("log"))

    def running(self, namespace: str) -> list[str]:
        """The tasks of which some process lives now."""
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
    """Where the node sees the same files as the host."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-records-", dir="/var/tmp"))
    folder.chmod(0o777)
    try:
        yield Records(folder)
    finally:
        shutil.rmtree(folder)

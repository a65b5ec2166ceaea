"""Run functions in another network namespace, in a child process.

An unprivileged process cannot return to the host network after it has entered another namespace. The spawner must stay
in the host network, where pods with hostNetwork start.
"""

from collections.abc import Callable, Sequence

from windlass.localcluster.sandbox import child_process, kernel


def run_in_namespace(namespace: int | None, work: Callable[[], Sequence[int] | None]) -> list[int]:
    """Run `work` in the namespace (None: a new one), and return its descriptors. Raises OSError if `work` fails."""

    def work_inside() -> tuple[bytes, Sequence[int]]:
        if namespace is None:
            kernel.unshare(kernel.CLONE_NEWNET)
        else:
            kernel.set_namespace(namespace, kernel.CLONE_NEWNET)
        return b"", work() or ()

    _, descriptors = child_process.call(work_inside)
    return descriptors

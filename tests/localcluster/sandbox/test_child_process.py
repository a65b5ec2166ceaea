"""Functions in forked child processes: results, errors and inherited descriptors."""

import errno
import os
import re
import subprocess
import sys

import pytest

from windlass.localcluster.sandbox import child_process


def test_call_returns_bytes_and_descriptors_of_the_child() -> None:
    reader, writer = os.pipe()

    def work() -> tuple[bytes, list[int]]:
        os.write(writer, b"written")
        return str(os.getpid()).encode(), [reader]

    pid, (descriptor,) = child_process.call(work)
    assert int(pid) != os.getpid()
    assert os.read(descriptor, 100) == b"written"
    for each in (reader, writer, descriptor):
        os.close(each)


def _fail(error: BaseException) -> tuple[bytes, list[int]]:
    raise error


@pytest.mark.parametrize(
    ("error", "number", "message"),
    [
        (OSError(errno.EPERM, "not allowed"), errno.EPERM, "not allowed"),
        (ValueError("wrong"), 0, "ValueError('wrong')"),
        (KeyboardInterrupt(), errno.ECHILD, "the child process has crashed"),
    ],
)
def test_call_raises_the_error_of_the_child(error: BaseException, number: int, message: str) -> None:
    with pytest.raises(OSError, match=re.escape(message)) as raised:
        child_process.call(lambda: _fail(error))
    assert (raised.value.errno, raised.value.strerror) == (number, message)


def test_close_all_except_keeps_given_descriptors() -> None:
    """In a process of its own, with a descriptor in every gap."""
    program = (
        "import os\n"
        "from windlass.localcluster.sandbox import child_process\n"
        "opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(9)]\n"
        "low, high = opened[2], opened[6]\n"
        "os.dup2(opened[0], 200)\n"
        "child_process.close_all_except({low, high, 1})\n"
        "def is_open(number):\n"
        "    try:\n"
        "        os.fstat(number)\n"
        "    except OSError:\n"
        "        return False\n"
        "    return True\n"
        "print([number in (0, 1, 2, low, high) for number in range(300) if is_open(number)])\n"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == str([True] * 5)

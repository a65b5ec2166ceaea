"""The error in the last lines of a log."""

import pytest

from windlass.model import tracebacks

SIMPLE = """\
step 1
Traceback (most recent call last):
  File "/work/train.py", line 60, in <module>
    main()
  File "/work/train.py", line 41, in main
    return options['lr']
           ~~~~~~~^^^^^^
KeyError: 'lr'
"""
IN_A_LIBRARY = """\
Traceback (most recent call last):
  File "/work/train.py", line 7, in <module>
    numpy.dot(a, b)
  File "/venv/lib/python3.11/site-packages/numpy/core.py", line 9, in dot
    raise ValueError("shapes")
ValueError: shapes
"""
CHAINED = """\
Traceback (most recent call last):
  File "/work/data.py", line 3, in load
    open(path)
FileNotFoundError: [Errno 2] No such file or directory: 'a'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/work/train.py", line 9, in <module>
    load()
RuntimeError: no data
"""
OF_A_RANK = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/work/train.py", line 5, in <module>
[rank0]:     main()
[rank0]: AssertionError
[rank0]:[W12 process_group.cpp:1] Warning: destroy_process_group() was not called
"""
CUT_OFF = """\
    main()
  File "/work/train.py", line 41, in main
    raise Stop
__main__.Stop: because
"""
SYNTAX = """\
  File "/work/train.py", line 3
    x = (
        ^
SyntaxError: '(' was never closed
"""
ERRORS = {
    "simple": (SIMPLE, "KeyError: 'lr' (train.py:41)"),
    "own frame before those of a library": (IN_A_LIBRARY, "ValueError: shapes (train.py:7)"),
    "last of two": (CHAINED, "RuntimeError: no data (train.py:9)"),
    "with the rank of the process": (OF_A_RANK, "AssertionError (train.py:5)"),
    "without its beginning": (CUT_OFF, "__main__.Stop: because (train.py:41)"),
    "syntax error": (SYNTAX, "SyntaxError: '(' was never closed (train.py:3)"),
    "without the exception": (SIMPLE[: SIMPLE.index("KeyError")], ""),
    "program that is not Python": ("a\nsh: 1: foo: not found\n", "sh: 1: foo: not found"),
    "missing file": ("python3: can't open file '/x.py'", "python3: can't open file '/x.py'"),
    "metrics": ("step 3 error: 0.31", ""),
    "other output": ("step 4100 loss 0.30\n", ""),
    "nothing": ("", ""),
    "long": ("error " + "x" * 500, "error " + "x" * 193 + "…"),
}


@pytest.mark.parametrize(("log", "error"), ERRORS.values(), ids=ERRORS)
def test_last_exception_is_found_with_its_position(log: str, error: str) -> None:
    assert tracebacks.find_error(log.splitlines()) == error


LAST_LINES = {
    "whole traceback": (SIMPLE, 10, SIMPLE.splitlines()[1:]),
    "last frame": (SIMPLE, 5, SIMPLE.splitlines()[4:]),
    "less than a frame": (SIMPLE, 1, ["KeyError: 'lr'"]),
    "without the lines after it": (OF_A_RANK, 10, OF_A_RANK.splitlines()[:-1]),
    "no traceback": ("a\nb\nc", 2, ["b", "c"]),
    "none": (SIMPLE, 0, []),
}


@pytest.mark.parametrize(("log", "count", "lines"), LAST_LINES.values(), ids=LAST_LINES)
def test_last_lines_are_those_of_the_traceback(log: str, count: int, lines: list[str]) -> None:
    assert list(tracebacks.select_last_lines(log.splitlines(), count)) == lines

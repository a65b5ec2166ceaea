"""Exit codes of commands by the result of a job."""

import pytest

from windlass.runner import exit_codes

CASES = {
    "success": (0, True, 0),
    "smallest": (1, False, 1),
    "same-as-timeout": (124, False, 124),
    "killed": (137, False, 137),
    "largest": (255, False, 255),
    "too-large": (256, False, 125),
    "of-the-controller": (-210, False, 125),
    "a-failure-is-never-0": (0, False, 125),
    "unknown": (None, False, 125),
}


@pytest.mark.parametrize(("code", "has_succeeded", "expected"), CASES.values(), ids=CASES.keys())
def test_exit_code_of_a_job(code: int | None, has_succeeded: bool, expected: int) -> None:
    assert exit_codes.of_job(code, has_succeeded=has_succeeded) == expected

"""Sets of indexes, as the status of a Job writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.localcluster.controllers.workloads import indexes


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (set(), ""),
        ({0}, "0"),
        ({0, 1}, "0,1"),
        ({0, 1, 2}, "0-2"),
        ({7, 1, 3, 4, 5}, "1,3-5,7"),
        ({0, 1, 2, 9, 10}, "0-2,9,10"),
    ],
)
def test_written(found: set[int], text: str) -> None:
    assert indexes.written(found) == text


@given(st.sets(st.integers(0, 50)))
def test_what_is_written_is_read(found: set[int]) -> None:
    assert indexes.read(indexes.written(found), 51) == found


def test_those_beyond_the_last_do_not_count() -> None:
    assert indexes.read("0-5,8", 3) == {0, 1, 2}

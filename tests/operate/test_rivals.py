"""Who is at work on the same statuses, and who only was (A8)."""

from collections.abc import Sequence

import pytest

from windlass.operate.rivals import Rivals
from windlass.testing.builders import at
from windlass.wire.codec import StatusWriter

OURS = "windlass-system"
REFERENCE = "frameworkcontroller"


def wrote(manager: str, seconds: float | None) -> StatusWriter:
    return StatusWriter(manager, None if seconds is None else at(seconds), "Update")


@pytest.mark.parametrize(
    ("at_first", "later", "rival"),
    [
        pytest.param([], [], "", id="nobody"),
        pytest.param([wrote(OURS, 1)], [wrote(OURS, 9)], "", id="ourselves"),
        pytest.param([wrote(REFERENCE, 1)], [wrote(REFERENCE, 1)], "", id="one that was here before"),
        pytest.param([wrote(REFERENCE, 1)], [wrote(REFERENCE, 2)], REFERENCE, id="one that writes again"),
        pytest.param([], [wrote(REFERENCE, 2)], REFERENCE, id="one that shows up"),
        pytest.param([wrote(OURS, 1)], [wrote(OURS, 9), wrote("other", 5)], "other", id="one beside us"),
        pytest.param([wrote(REFERENCE, 1)], [], "", id="one whose traces we have written over"),
        pytest.param([wrote(REFERENCE, 9)], [wrote(REFERENCE, 3)], "", id="a time that steps back"),
        pytest.param([wrote(REFERENCE, None)], [wrote(REFERENCE, 3)], REFERENCE, id="a time at last"),
        pytest.param([], [wrote(REFERENCE, None)], "", id="never a time"),
        pytest.param([], [wrote("kubectl-edit", 3), wrote("kubectl", 4)], "", id="people"),
        pytest.param([], [wrote("windlass-elsewhere", 3)], "windlass-elsewhere", id="another installation"),
    ],
)
def test_a_rival_has_written_since_we_first_looked(
    at_first: Sequence[StatusWriter], later: Sequence[StatusWriter], rival: str
) -> None:
    rivals = Rivals(OURS)
    assert rivals.among("uid", at_first) == "", "whoever wrote before may have stopped"
    assert rivals.among("uid", later) == rival


def test_frameworks_are_told_apart() -> None:
    rivals = Rivals(OURS)
    rivals.among("a", [wrote(REFERENCE, 1)])
    assert rivals.among("b", [wrote(REFERENCE, 2)]) == ""
    assert rivals.among("a", [wrote(REFERENCE, 2)]) == REFERENCE


def test_a_framework_that_is_forgotten_is_seen_for_the_first_time_again() -> None:
    rivals = Rivals(OURS)
    rivals.among("a", [wrote(REFERENCE, 1)])
    rivals.forget("a")
    rivals.forget("never-seen")
    assert rivals.among("a", [wrote(REFERENCE, 2)]) == ""

"""`$(NAME)`: what becomes of it, and of everything that only looks like it."""

import pytest

from windlass.localcluster.kubelet.containers import expansion
from windlass.localcluster.kubelet.containers.errors import SetupError

VARIABLES = {"A": "a", "B": "b", "EMPTY": "", "NESTED": "$(A)", "WITH SPACE": "s"}


@pytest.mark.parametrize(
    ("written", "expanded"),
    [
        ("$(A)", "a"),
        ("$(A)$(B)", "ab"),
        ("-$(A)-$(B)-", "-a-b-"),
        ("$(EMPTY)", ""),
        ("$(WITH SPACE)", "s"),
        ("$(A", "$(A"),
        ("$(A$(B)", "$(A$(B)"),
        ("$($(A)", "$($(A)"),
        ("$()", "$()"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$a"),
        ("$$$$(A)", "$$(A)"),
        ("$$$$$$$(UNKNOWN)", "$$$$(UNKNOWN)"),
        ("$$A", "$A"),
        ("$A", "$A"),
        ("${A}", "${A}"),
        ("$?_x_$!", "$?_x_$!"),
        ("$", "$"),
        ("a$", "a$"),
        ("$$", "$"),
        ("$(", "$("),
        ("$(a$$b", "$(a$b"),
        ("\\$(A)", "\\a"),
        ("$é$(A)", "$éa"),
        ("line\n$(A)", "line\na"),
        ("$(NESTED)", "$(A)"),
        ("", ""),
    ],
)
def test_expansion(written: str, expanded: str) -> None:
    assert expansion.expand(written, VARIABLES) == expanded


def test_earlier_mapping_takes_precedence() -> None:
    assert expansion.expand("$(A) $(C)", {"A": "first"}, {"A": "second", "C": "c"}) == "first c"


def test_references_are_the_expandable_names() -> None:
    assert [*expansion.referenced_names("$(A)/$$(B)/$(C D)/$(E")] == ["A", "C D"]


def test_expansion_stops_at_the_limit_of_a_process() -> None:
    value = "x" * 1024**2
    assert len(expansion.expand("$(A)" * 6, {"A": value})) == expansion.MAX_CHARACTERS
    with pytest.raises(SetupError, match="more than 6291456 characters"):
        expansion.expand("$(A)" * 1_000_000, {"A": value})

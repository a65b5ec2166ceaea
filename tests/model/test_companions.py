"""Companions of a job, the sources of their passwords, and their labels."""

import pytest

from windlass.model.companions import (
    Companion,
    CompanionSpec,
    Hub,
    Jupyter,
    PasswordFrom,
    TensorBoard,
    companion_from_labels,
    password_source,
)
from windlass.model.job import Job

BOTH = Job(name="digits", hub=Hub(), tensorboard=TensorBoard())


def test_companions_are_in_a_fixed_order() -> None:
    assert BOTH.companions == {Companion.TENSORBOARD: TensorBoard(), Companion.HUB: Hub()}
    assert list(BOTH.companions) == [Companion.TENSORBOARD, Companion.HUB]
    assert not Job(name="digits").companions


def test_with_companions_keeps_only_these() -> None:
    assert BOTH.with_companions(tuple(Companion)) == BOTH
    assert BOTH.with_companions((Companion.HUB, Companion.JUPYTER)) == Job(name="digits", hub=Hub())
    assert BOTH.with_companions(()) == Job(name="digits")


@pytest.mark.parametrize(
    ("wanted", "source"),
    [
        (TensorBoard(), PasswordFrom()),
        (Hub(), PasswordFrom()),
        (Jupyter(password_from=PasswordFrom(env="PASSWORD")), PasswordFrom(env="PASSWORD")),
    ],
)
def test_password_source_of_each_companion(wanted: CompanionSpec, source: PasswordFrom) -> None:
    assert password_source(wanted) == source


@pytest.mark.parametrize(
    ("labels", "companion"),
    [
        ({"windlass.dev/companion": "hub"}, Companion.HUB),
        ({"windlass.dev/companion": "anything"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_companion_from_labels(labels: dict[str, str] | None, companion: Companion | None) -> None:
    assert companion_from_labels(labels) is companion

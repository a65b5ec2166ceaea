"""Which companions a job asks for, where their passwords are, and to which one an object belongs."""

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


def test_those_that_it_asks_for_in_one_order() -> None:
    assert BOTH.companions == {Companion.TENSORBOARD: TensorBoard(), Companion.HUB: Hub()}
    assert list(BOTH.companions) == [Companion.TENSORBOARD, Companion.HUB]
    assert not Job(name="digits").companions


def test_the_same_job_with_some_of_them() -> None:
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
def test_where_a_password_is(wanted: CompanionSpec, source: PasswordFrom) -> None:
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
def test_to_which_one_an_object_belongs(labels: dict[str, str] | None, companion: Companion | None) -> None:
    assert companion_from_labels(labels) is companion

"""Fixtures that create an `ObjectWorld` in a given state."""

from typing import Any

import builders
import pytest
from tests.decide.object_world import NewWorld, ObjectWorld

from windlass.decide.types import Rules
from windlass.model.framework import TaskRoleSpec
from windlass.model.states import State


@pytest.fixture
def new_world() -> NewWorld:
    """Create a world from roles and other fields of the spec, before any decision."""

    def make(*roles: TaskRoleSpec, rules: Rules | None = None, **spec: Any) -> ObjectWorld:
        return ObjectWorld(builders.framework("job", *roles, **spec), rules or Rules())

    return make


@pytest.fixture
def pending_world(new_world: NewWorld) -> NewWorld:
    """Create a world whose ConfigMap and pods are created and reported; every pod is Pending."""

    def make(*roles: TaskRoleSpec, rules: Rules | None = None, **spec: Any) -> ObjectWorld:
        world = new_world(*roles, rules=rules, **spec)
        world.settle()
        assert world.state() is State.ATTEMPT_PREPARING
        return world

    return make


@pytest.fixture
def running_world(pending_world: NewWorld) -> NewWorld:
    """Create a world whose pods all run."""

    def make(*roles: TaskRoleSpec, rules: Rules | None = None, **spec: Any) -> ObjectWorld:
        world = pending_world(*roles, rules=rules, **spec)
        for name in world.roles():
            world.run(role=name)
        world.settle()
        assert world.state() is State.ATTEMPT_RUNNING
        return world

    return make

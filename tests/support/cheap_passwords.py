"""A pytest plugin: Jupyter's passwords are hashed at little cost, except by tests that use `production_cost`.

A hash of argon2 names its cost, so that every server accepts a cheap one. Modules hash passwords when they are
imported, so the cost is lowered as soon as this plugin is imported.
"""

import pytest

from windlass.render.companions import passwords

CHEAP = {"time_cost": 1, "memory_cost": 8, "parallelism": 1, "hash_len": 32}
PRODUCTION = passwords.ARGON2_COST

passwords.ARGON2_COST = CHEAP


@pytest.fixture
def production_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "ARGON2_COST", PRODUCTION)

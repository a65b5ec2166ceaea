"""A pytest plugin that hashes Jupyter's passwords cheaply, except in tests that use `production_cost`.

An argon2 hash contains its cost, so that every server accepts a cheap one. Modules hash passwords at import, so the
cost is lowered when this plugin is imported.
"""

import pytest

from windlass.render.companions import passwords

CHEAP = {"time_cost": 1, "memory_cost": 8, "parallelism": 1, "hash_len": 32}
PRODUCTION = passwords.ARGON2_COST

passwords.ARGON2_COST = CHEAP


@pytest.fixture
def production_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "ARGON2_COST", PRODUCTION)

"""A pytest plugin: passwords are hashed at little cost, except by tests that use the fixture `production_cost`.

Modules hash passwords when they are imported, so the cost is lowered as soon as this plugin is.
"""

import pytest

from windlass.render.companions import passwords

COSTS = {
    "ARGON2_COST": {"time_cost": 1, "memory_cost": 8, "parallelism": 1, "hash_len": 32},
    "SCRYPT_COST": {"n": 2, "r": 1, "p": 1, "dklen": 32},
}
PRODUCTION = {name: getattr(passwords, name) for name in COSTS}

for name, cost in COSTS.items():
    setattr(passwords, name, cost)


@pytest.fixture
def production_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, cost in PRODUCTION.items():
        monkeypatch.setattr(passwords, name, cost)

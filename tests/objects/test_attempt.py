"""The ConfigMap of an attempt. Its complete form is in the golden files."""

from collections.abc import Callable

import msgspec
import pytest

from windlass.model import names
from windlass.model.framework import Framework
from windlass.objects.attempt import config_map


@pytest.mark.parametrize("group", names.GROUPS)
def test_owner_is_the_framework_in_its_own_group(group: str, running: Callable[..., Framework]) -> None:
    """Statement 5."""
    (owner,) = config_map(running({}, group=group))["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["uid"]) == (f"{group}/v1", "Framework", "framework")


def test_no_config_map_before_an_attempt(running: Callable[..., Framework]) -> None:
    framework = msgspec.structs.replace(running({}), status=None)
    with pytest.raises(ValueError, match="research/digits has no status"):
        config_map(framework)

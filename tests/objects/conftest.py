"""Frameworks to make objects of, and golden files.

`WINDLASS_REGENERATE=1 pytest tests/objects` writes the golden files anew; read the difference before it is kept.
"""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from windlass.k8s.metadata import ObjectMeta
from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import Framework, FrameworkSpec, TaskRoleSpec, TaskSpec
from windlass.model.status import (
    FrameworkAttemptStatus,
    FrameworkStatus,
    TaskAttemptStatus,
    TaskRoleStatus,
    TaskStatus,
)

START = datetime(2026, 1, 1, tzinfo=UTC)

Build = Callable[..., Framework]
Compare = Callable[[Path, list[Any]], None]


@pytest.fixture(scope="session")
def running() -> Build:
    """Builds a Framework of one role with this pod template, whose attempt has its ConfigMap."""

    def build(
        template: Json,
        group: str = names.CONTROLLER_GROUP,
        tasks: int = 1,
        role: str = "worker",
        annotations: dict[str, str] | None = None,
    ) -> Framework:
        statuses = tuple(
            TaskStatus(
                index=index,
                instance_uid=f"task-{index}",
                start_time=START,
                transition_time=START,
                attempt_status=TaskAttemptStatus(start_time=START, pod_name=f"digits-{role}-{index}"),
            )
            for index in range(tasks)
        )
        attempt = FrameworkAttemptStatus(
            start_time=START,
            config_map_name="digits-attempt",
            config_map_uid="config-map",
            task_role_statuses=(TaskRoleStatus(name=role, instance_uid="role", task_statuses=statuses),),
        )
        return Framework(
            api_version=names.api_version(group),
            kind=names.KIND,
            metadata=ObjectMeta(
                name="digits", namespace="research", uid="framework", annotations=annotations or {}
            ),
            spec=FrameworkSpec(task_roles=(TaskRoleSpec(role, tasks, task=TaskSpec(pod=template)),)),
            status=FrameworkStatus(start_time=START, transition_time=START, attempt_status=attempt),
        )

    return build


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


@pytest.fixture(scope="session")
def golden() -> Compare:
    """Compares documents with those in a file, or writes them there."""

    def compare(file: Path, documents: list[Any]) -> None:
        if os.environ.get("WINDLASS_REGENERATE"):
            text = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=110)
            file.write_text(text, encoding="utf-8")
        assert list(yaml.safe_load_all(file.read_text(encoding="utf-8"))) == documents

    return compare

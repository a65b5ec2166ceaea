"""Frameworks, ConfigMaps and pods for tests, with defaults for everything that a test does not set."""

from datetime import datetime, timedelta

from windlass.k8s.metadata import OwnerReference
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.pods import (
    ConfigMapView,
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    ObjectAnnotations,
    ObjectLabels,
    ObjectMetadata,
    PodSpecView,
    PodStatusView,
    PodView,
)
from windlass.model.status import TaskStatus
from windlass.simulate.builders import NOW, POD_TEMPLATE, framework, role

__all__ = ["NOW", "POD_TEMPLATE", "at", "config_map", "framework", "pod", "role"]


def at(seconds: float) -> datetime:
    """Return the time that many seconds after NOW."""
    return NOW + timedelta(seconds=seconds)


def config_map(
    of: Framework,
    uid: str = "cm-0",
    *,
    attempt_id: int = 0,
    resource_version: str = "2",
    created_at: datetime = NOW,
    deleting_since: datetime | None = None,
    owner_uid: str | None = None,
) -> ConfigMapView:
    """The ConfigMap of a Framework attempt, as the API server shows it."""
    owner = OwnerReference(
        api_version=of.api_version, kind=of.kind, name=of.name, uid=owner_uid or of.uid, controller=True
    )
    return ConfigMapView(
        metadata=ObjectMetadata(
            name=names.config_map_name(of.name),
            namespace=of.namespace,
            uid=uid,
            resource_version=resource_version,
            creation_timestamp=created_at,
            deletion_timestamp=deleting_since,
            labels=ObjectLabels(framework_name=of.name),
            annotations=ObjectAnnotations(framework_uid=of.uid, framework_attempt_id=str(attempt_id)),
            owner_references=(owner,),
        )
    )


def pod(
    of: Framework,
    task: TaskStatus,
    role_name: str = "worker",
    *,
    uid: str | None = None,
    config_map_uid: str = "cm-0",
    phase: str = "Pending",
    exit_code: int | None = None,
    reason: str = "",
    message: str = "",
    resource_version: str = "3",
    deleting_since: datetime | None = None,
    finished_at: datetime | None = None,
    is_labelled: bool = True,
) -> PodView:
    """The pod of a task attempt, as the API server shows it."""
    terminated = ContainerTerminated(exit_code=exit_code or 0, finished_at=finished_at or NOW)
    containers: tuple[ContainerStatus, ...] = ()
    if exit_code is not None:
        containers = (ContainerStatus(name="main", state=ContainerState(terminated=terminated)),)
    attempt = task.attempt_status
    return PodView(
        metadata=ObjectMetadata(
            name=attempt.pod_name,
            namespace=of.namespace,
            uid=uid or f"{attempt.pod_name}-{attempt.id}",
            resource_version=resource_version,
            creation_timestamp=NOW,
            deletion_timestamp=deleting_since,
            labels=ObjectLabels(
                framework_name=of.name,
                role_name=role_name,
                task_index=str(task.index),
                attempt=config_map_uid if is_labelled else "",
            ),
            annotations=ObjectAnnotations(
                framework_uid=of.uid,
                config_map_uid=config_map_uid,
                task_uid=task.instance_uid or "",
                task_attempt_id=str(attempt.id),
            ),
            owner_references=(
                OwnerReference(
                    api_version="v1",
                    kind="ConfigMap",
                    name=names.config_map_name(of.name),
                    uid=config_map_uid,
                    controller=True,
                ),
            ),
        ),
        spec=PodSpecView(node_name="node-0" if phase != "Pending" else ""),
        status=PodStatusView(
            phase=phase,
            reason=reason,
            message=message,
            pod_ip="10.0.0.1" if phase == "Running" else "",
            host_ip="192.168.0.1" if phase == "Running" else "",
            container_statuses=containers,
        ),
    )

"""Typed views of the Deployments and Services of companions."""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from windlass.client.pods import Pod, PodSpec
from windlass.k8s.metadata import OwnedObjectMeta
from windlass.model.base import Sparse
from windlass.model.companions import Companion, companion_from_labels


class _Template(Sparse, frozen=True):
    spec: PodSpec = PodSpec()


class _DeploymentSpec(Sparse, frozen=True):
    template: _Template = _Template()


class Deployment(Sparse, frozen=True):
    metadata: OwnedObjectMeta = OwnedObjectMeta()
    spec: _DeploymentSpec = _DeploymentSpec()


class ServicePort(Sparse, frozen=True):
    port: int = 0
    target_port: int | str = 0
    node_port: int = 0


class _ServiceSpec(Sparse, frozen=True):
    type: str = ""
    ports: tuple[ServicePort, ...] = ()


class _Ingress(Sparse, frozen=True):
    ip: str = ""
    hostname: str = ""


class _LoadBalancer(Sparse, frozen=True):
    ingress: tuple[_Ingress, ...] | None = ()


class _ServiceStatus(Sparse, frozen=True):
    load_balancer: _LoadBalancer = _LoadBalancer()


class Service(Sparse, frozen=True):
    metadata: OwnedObjectMeta = OwnedObjectMeta()
    spec: _ServiceSpec = _ServiceSpec()
    status: _ServiceStatus = _ServiceStatus()


decode_deployment = msgspec.json.Decoder(Deployment).decode
decode_service = msgspec.json.Decoder(Service).decode

_Labelled = TypeVar("_Labelled", Deployment, Service, Pod)


class Found(msgspec.Struct, frozen=True):
    deployments: list[tuple[Companion, Deployment]]
    services: list[tuple[Companion, Service]]
    pods: list[tuple[Companion, Pod]]

    def has(self, companion: Companion) -> bool:
        every = (*self.deployments, *self.services, *self.pods)
        return any(each == companion for each, _ in every)


def by_companion(found: Iterable[_Labelled]) -> list[tuple[Companion, _Labelled]]:
    labelled = ((companion_from_labels(each.metadata.labels), each) for each in found)
    return [(companion, each) for companion, each in labelled if companion is not None]

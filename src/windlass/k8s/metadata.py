"""Typed views of the metadata of Kubernetes objects.

Decoding skips the fields that a view does not declare, so code on a hot path uses the narrowest view that is enough.
"""

from datetime import datetime
from typing import Generic, TypeVar

import msgspec


class OwnerReference(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectName(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True):
    name: str = ""
    namespace: str = ""


class LabeledName(ObjectName, frozen=True):
    labels: dict[str, str] = {}


class ObjectVersion(msgspec.Struct, frozen=True, rename="camel", gc=False):
    resource_version: str = ""


class ObjectIdentity(ObjectName, frozen=True):
    uid: str = ""
    resource_version: str = ""


class ObjectMeta(ObjectIdentity, frozen=True):
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class OwnedObjectMeta(ObjectMeta, frozen=True):
    deletion_grace_period_seconds: int = 0
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class ObjectOwners(msgspec.Struct, frozen=True, rename="camel", gc=False):
    uid: str = ""
    owner_references: tuple[OwnerReference, ...] = ()


_Metadata = TypeVar("_Metadata", bound=msgspec.Struct)


class PartialObject(msgspec.Struct, Generic[_Metadata], frozen=True, gc=False):
    """An object of any kind of which only the metadata is read."""

    metadata: _Metadata


decode_name = msgspec.json.Decoder(PartialObject[ObjectName]).decode
decode_labels = msgspec.json.Decoder(PartialObject[LabeledName]).decode
decode_version = msgspec.json.Decoder(PartialObject[ObjectVersion]).decode
decode_identity = msgspec.json.Decoder(PartialObject[ObjectIdentity]).decode
decode_meta = msgspec.json.Decoder(PartialObject[ObjectMeta]).decode
decode_owners = msgspec.json.Decoder(PartialObject[ObjectOwners]).decode

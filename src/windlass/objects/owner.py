"""Who owns what: the Framework its attempt's ConfigMap, the ConfigMap the attempt's pods."""

from windlass.model.base import Json


def controller(api_version: str, kind: str, name: str, uid: str) -> Json:
    """An owner reference by which the owned object goes when its owner goes.

    `blockOwnerDeletion` keeps an owner that is deleted in the foreground until the owned object is gone.
    """
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }

"""Gangs: what the barriers of their pods are told."""

from windlass.decide.builder import Draft
from windlass.decide.types import PublishGang
from windlass.model import gang


def publish(draft: Draft) -> None:
    """Once every task has an address, and again whenever one has another pod: that pod's barrier waits for it."""
    if not draft.features.uses_gang:
        return
    members = gang.members_of(draft.spec, draft.status.attempt_status)
    if members is None:
        return
    fingerprint = gang.fingerprint(members)
    if fingerprint != draft.observed.outcomes.published_gang:
        draft.act(PublishGang(fingerprint))

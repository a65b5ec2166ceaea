"""All companions of a job, as a cluster is given them."""

from collections.abc import Iterator

from windlass.model.job import Job
from windlass.render.companions import hub, jupyter, tensorboard
from windlass.render.companions.servers import ResolvedCompanions
from windlass.render.manifest_parts import Part, Piece
from windlass.render.storage.nfs_shares import Share


def pieces(
    job: Job, resolved: ResolvedCompanions, share: Share | None = None, namespace: str = ""
) -> Iterator[Piece]:
    """`namespace` is for a job that leaves it open."""
    if job.tensorboard is not None:
        for body in tensorboard.objects(job, job.tensorboard, resolved, share, namespace):
            yield Piece(Part.TENSORBOARD, body)
    if job.jupyter is not None:
        for body in jupyter.objects(job, job.jupyter, resolved, share, namespace):
            yield Piece(Part.JUPYTER, body)
    if job.hub is not None:
        for body in hub.objects(job, job.hub, resolved, share, namespace):
            yield Piece(Part.HUB, body)

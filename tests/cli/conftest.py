"""The cluster that these tests share."""

from cluster_fixtures import place, scripted, world

__all__ = ["place", "scripted", "world"]

"""The cluster that these tests share."""

from cluster_fixtures import place, scripted_place, world

__all__ = ["place", "scripted_place", "world"]

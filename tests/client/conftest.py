"""The clusters that these tests share."""

from cluster_fixtures import place, scripted, world
from companion_submissions import busy_world, submissions

__all__ = ["busy_world", "place", "scripted", "submissions", "world"]

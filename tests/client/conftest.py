"""The clusters that these tests share."""

from cluster_fixtures import place, scripted_place, world
from companion_submissions import busy_world, submissions

__all__ = ["busy_world", "place", "scripted_place", "submissions", "world"]

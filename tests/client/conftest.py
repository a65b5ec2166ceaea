"""The clusters that these tests share."""

from companion_submissions import busy_world, submissions
from world_fixtures import place, scripted, world

__all__ = ["busy_world", "place", "scripted", "submissions", "world"]

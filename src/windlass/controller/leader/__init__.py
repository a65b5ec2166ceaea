"""Leader election and what a replica runs while it leads."""

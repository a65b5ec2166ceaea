"""`windlass plan`: one job on a virtual clock with chosen faults."""

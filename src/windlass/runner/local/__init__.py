"""The daemon behind `windlass local`: its data directory, process, record and status."""

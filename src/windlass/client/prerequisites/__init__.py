"""Objects that must exist before the tasks of a job start: secrets, volumes, code, data."""

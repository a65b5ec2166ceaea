"""The lifecycle of a pod: the next steps and the status, computed without I/O. Time is an argument."""

"""From the job file to what a cluster takes. Pure: no I/O, no clock."""

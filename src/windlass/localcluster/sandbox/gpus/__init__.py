"""The GPUs of this machine, their usage, and the processes that use them, read from their drivers."""

"""The worker of a pod: start, observe, stop and clean up its containers."""

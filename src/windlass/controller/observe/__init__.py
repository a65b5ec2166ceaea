"""Events, metrics, logs, snapshots and health endpoints of the controller."""

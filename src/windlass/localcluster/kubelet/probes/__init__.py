"""Startup, liveness and readiness probes: schedule and execution."""

"""Render the companions of a job: a Deployment and a Service each, with their configuration."""

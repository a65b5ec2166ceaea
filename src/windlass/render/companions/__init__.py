"""Companions of a job → Kubernetes objects: a Deployment and a Service each, and what they are told."""

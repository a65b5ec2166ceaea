"""Windlass launches distributed training, on one laptop and on Kubernetes, with one controller."""

__version__ = "0.1.0.dev0"

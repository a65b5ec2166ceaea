"""Build container images from Debian's and Python's packages, without registry, daemon or Dockerfile."""

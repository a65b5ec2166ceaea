"""Container images made from Debian's and Python's packages alone: no registry, no daemon, no Dockerfile."""

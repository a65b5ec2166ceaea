"""PyTorch, JAX and MPI with the launchers of docs/discovery.md, and their examples: `make test-launchers`.

Each launcher starts up to six processes that import PyTorch for seconds, which would take most of the time of
`make test-examples`. Tests whose packages are missing are skipped; with WINDLASS_TEST_EXAMPLES=required they fail.
"""

from examples import output

__all__ = ["output"]

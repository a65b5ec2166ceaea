"""The examples, run as in their READMEs: `make test-examples`.

They train with packages that Windlass itself does not need. Examples whose packages are missing are skipped; with
WINDLASS_TEST_EXAMPLES=required they fail.
"""

from examples import output

__all__ = ["output"]

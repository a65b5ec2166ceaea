"""Print the table of the upstream examples: `make test-convert`."""

import pytest
from tests.convert.upstream.test_examples import ROWS


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not ROWS:
        return
    terminalreporter.section("upstream examples")
    width = max(len(row[0]) for row in ROWS)
    for name, result in sorted(ROWS):
        terminalreporter.line(f"{name.ljust(width)}  {result}")
    converted = sum(result.startswith("converts") for _, result in ROWS)
    terminalreporter.line(f"{converted} of {len(ROWS)} files with jobs of a supported kind convert")

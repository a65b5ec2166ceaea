"""The error that ends a Simulation when an invariant is violated."""


class Violation(AssertionError):  # noqa: N818 - a finding, not an error of the program
    """An invariant was violated."""


def require(holds: bool, message: str) -> None:
    if not holds:
        raise Violation(message[:1000])

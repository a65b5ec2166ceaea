"""What a run of the Simulation ends with when a guarantee breaks."""


class Violation(AssertionError):  # noqa: N818 - it is what it says, not an error of the program
    """A guarantee was broken."""


def insist(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what[:1000])

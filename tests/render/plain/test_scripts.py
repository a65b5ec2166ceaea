"""The script of a role sets the variables of `discovery`, for any job and task."""

import subprocess
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.discovery import environment
from windlass.discovery.peers import Address, Peers
from windlass.model.feature_annotations import Runtime
from windlass.render.plain import scripts
from windlass.render.plain.scripts import POD_VARIABLE, IndexSource

NAMES = [
    "ps",
    "worker",
    "workers",
    "chief",
    "master",
    "launcher",
    "coordinator",
    "evaluator",
    "jupyter",
    "a1",
]
OF_THE_SHELL = {"PWD", "SHLVL", "_", "OLDPWD"}


def exported(script: str, given_variables: dict[str, str]) -> dict[str, str]:
    """Run the script in a real shell with these variables only, and return its exported variables."""
    command = ["/bin/sh", "-c", f'{script}\nexec "$@"', "sh", "/usr/bin/env", "-0"]
    answer = subprocess.run(command, env=given_variables, capture_output=True, check=True, timeout=60)  # noqa: S603
    pairs = (pair.partition("=") for pair in answer.stdout.decode().split("\0") if pair)
    return {name: value for name, _, value in pairs if name not in OF_THE_SHELL | set(given_variables)}


def situation(index_source: IndexSource, index: int) -> dict[str, str]:
    """Return the variables that Kubernetes sets for a task."""
    match index_source:
        case IndexSource.SINGLE_TASK:
            return {}
        case IndexSource.COMPLETION_INDEX:
            return {"JOB_COMPLETION_INDEX": str(index)}
        case IndexSource.POD_NAME:
            return {POD_VARIABLE: f"a-7-b2-{index}"}


@st.composite
def clusters(draw: st.DrawFn) -> Peers:
    numbers = draw(st.dictionaries(st.sampled_from(NAMES), st.integers(0, 12), min_size=1, max_size=4))
    domain = draw(st.sampled_from(["", ".ns-1.svc.cluster.local"]))
    port = draw(st.integers(1, 65535))
    return Peers(
        {
            role: tuple(Address(f"d-{role}-{index}{domain}", port) for index in range(number))
            for role, number in numbers.items()
        }
    )


@pytest.mark.parametrize("runtime", [runtime for runtime in Runtime if runtime is not Runtime.MPI])
@settings(deadline=None, max_examples=12)
@given(peers=clusters(), data=st.data())
def test_script_sets_variables_of_discovery(runtime: Runtime, peers: Peers, data: st.DataObject) -> None:
    variables = environment.variables_for_peers(runtime, peers, "digits")
    for role, addresses in peers.roles.items():
        alone = (IndexSource.SINGLE_TASK,) if len(addresses) == 1 else ()
        index_source = data.draw(
            st.sampled_from([IndexSource.COMPLETION_INDEX, IndexSource.POD_NAME, *alone])
        )
        script = scripts.script(variables, role, index_source)
        for index in {0, 1, 9, 10, len(addresses) - 1} & set(range(len(addresses))):
            assert exported(script, situation(index_source, index)) == variables(role, index)


def test_variables_of_role_are_not_overridden() -> None:
    variables = environment.variables_for_peers(Runtime.PLAIN, Peers({"a": (Address("h", 1),)}), "")
    script = scripts.script(
        variables, "a", IndexSource.SINGLE_TASK, {"JOB_NAME"}, ['export X="${TASK_INDEX}"']
    )
    assert exported(script, {}) == {"A_HOSTS": "h:1", "TASK_INDEX": "0", "X": "0"}


ODD: dict[str, Callable[[int], str]] = {
    "a quote": lambda index: f"it's {index}",
    "a dollar": lambda index: f"$(x) `y` ${{z}} {index} \\",
    "lines": lambda index: f"a\n{index}\nb",
    "digits before": lambda index: f"19{index}x" if index < 10 else "",
    "spaces": lambda index: f"  {99 + index}  ",
    "the first alone": lambda index: "it's the first" if index == 0 else 'an"other',
}


@pytest.mark.parametrize("case", ODD)
@pytest.mark.parametrize("index", [0, 1, 2, 5])
def test_any_value_is_exported_unchanged(case: str, index: int) -> None:
    def variables(_role: str, task: int) -> dict[str, str]:
        return {"X": ODD[case](task)}

    script = scripts.script(variables, "a", IndexSource.COMPLETION_INDEX)
    assert exported(script, situation(IndexSource.COMPLETION_INDEX, index)) == variables("", index)


def test_irregular_value_is_rejected() -> None:
    with pytest.raises(ValueError, match="cannot write a shell expression"):
        scripts.script(lambda _, index: {"X": "x" * index}, "a", IndexSource.POD_NAME)

"""What works for a job beside its tasks is given exactly what was meant."""

from hypothesis import given
from hypothesis import strategies as st

from windlass.localcluster.containers import expansion
from windlass.model.job import Job, Role
from windlass.model.wishes import Runtime
from windlass.render import beside

NAMES = {"A": "filled in", "": "too"}


@given(st.text(st.sampled_from("$()A x'\"\n\\")) | st.text())
def test_kubernetes_changes_no_word(text: str) -> None:
    assert expansion.expand(beside.literal(text), NAMES) == text


def test_the_role_that_leads() -> None:
    roles = {"ps": Role(image="p"), "worker": Role(image="w")}
    job = Job(name="a", runtime=Runtime.TENSORFLOW, command="x", roles=roles)
    assert beside.leading_role(job).image == "w"
    alone = Job(
        name="a", runtime=Runtime.TENSORFLOW, command="x", roles={"none": Role(tasks=0), "ps": roles["ps"]}
    )
    assert beside.leading_role(alone).image == "p", "one that runs, where none leads"

"""What works for a job beside its tasks is given exactly what was meant."""

from hypothesis import given
from hypothesis import strategies as st

from windlass.localcluster.kubelet.containers import expansion
from windlass.model.feature_annotations import Runtime
from windlass.model.job import Job, Role
from windlass.render import helper_pods

NAMES = {"A": "filled in", "": "too"}


@given(st.text(st.sampled_from("$()A x'\"\n\\")) | st.text())
def test_kubernetes_changes_no_word(text: str) -> None:
    assert expansion.expand(helper_pods.literal(text), NAMES) == text


def test_the_role_that_leads() -> None:
    roles = {"ps": Role(image="p"), "worker": Role(image="w")}
    job = Job(name="a", runtime=Runtime.TENSORFLOW, command="x", roles=roles)
    assert helper_pods.leading_role(job).image == "w"
    alone = Job(
        name="a", runtime=Runtime.TENSORFLOW, command="x", roles={"none": Role(tasks=0), "ps": roles["ps"]}
    )
    assert helper_pods.leading_role(alone).image == "p", "one that runs, where none leads"

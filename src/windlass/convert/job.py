"""batch/v1 Job: one role, whose tasks are the completions.

A task is retried until it succeeds. The rules that end the Job, e.g. backoffLimit, are completion policies of the
Framework.
"""

from windlass.convert import job_rules, job_spec, pod_templates, training_operator
from windlass.convert.conversion import Draft
from windlass.convert.fields import METADATA, Fields, Kind
from windlass.convert.job_spec import Job, JobSpec

API_VERSION = "batch/v1"
ROLE = "worker"
_SPEC = ("spec",)


def convert(draft: Draft) -> None:
    spec = job_spec.decode(draft, JobSpec, draft.spec, _SPEC)
    if spec is None:
        return
    job = job_spec.read(draft, draft.spec, spec, _SPEC)
    role = ("roles", ROLE)
    draft.put((*role, "tasks"), job.tasks, (*_SPEC, "completions" if job.completions else "parallelism"))
    draft.map_origin(role, _SPEC)
    draft.put((*role, "completion"), {"minFailedTaskCount": -1, "minSucceededTaskCount": -1})
    template = job_rules.pod_template(job, draft.name, "{{FC_TASK_INDEX}}")
    pod_templates.put_template(draft, ROLE, template, (*_SPEC, "template"))
    comment = "backoffLimit counts failed pods, not restarts of the job: see framework.completionPolicies"
    draft.put(("retry",), {"job": 0, "transient": 0}, (*_SPEC, "backoffLimit"), comment)
    job_spec.take_service(draft)
    _put_rules(draft, job)
    _put_policies(draft, job)


def _put_rules(draft: Draft, job: Job) -> None:
    fields = job_rules.role_fields(job)
    if fields:
        draft.framework_role(ROLE, fields)
    rules = [
        *({**failing.rule, "taskRoles": [ROLE]} for failing in job_rules.failing_rules(job)),
        *({**rule, "taskRoles": [ROLE]} for rule in job_rules.succeeding_rules(job)),
    ]
    if rules:
        draft.framework({"completionPolicies": rules}, _SPEC)


def _put_policies(draft: Draft, job: Job) -> None:
    spec = job.spec
    if spec.ttl_seconds_after_finished is not None:
        draft.put(("ttl",), spec.ttl_seconds_after_finished, (*_SPEC, "ttlSecondsAfterFinished"))
    if spec.active_deadline_seconds is not None:
        draft.put(("activeDeadline",), spec.active_deadline_seconds, (*_SPEC, "activeDeadlineSeconds"))
        draft.note(
            (*_SPEC, "activeDeadlineSeconds"),
            "time without suspension; the original starts again when a suspended job is resumed",
        )
    if job.completions is None:
        draft.note((*_SPEC, "parallelism"), job_rules.WORK_QUEUE)
    if spec.suspend or job.parallelism == 0:
        draft.framework({"suspend": True})
    if job.parallelism == 0:
        draft.note((*_SPEC, "parallelism"), "0: the job is suspended until it is resumed")
    training_operator.put_scheduling_policy(draft, spec.scheduling)


KINDS = (
    Kind(
        API_VERSION,
        "Job",
        "jobs",
        METADATA | job_spec.fields() | Fields(("spec.suspend", "spec.ttlSecondsAfterFinished")),
        convert,
        is_fallback=True,
    ),
)

"""The operations of the API, from which its OpenAPI document is generated."""

from windlass.client.logs.search import SearchResult
from windlass.web import actions, files, jobs, logs, metrics, schema
from windlass.web.calls import Parameter, Route

API = "/api/v1"
_NAMESPACE = Parameter("namespace", "Namespace, or `*` for all (default: that of the session).")
_LOG_SELECTION = (
    Parameter("task", "Tasks and roles, separated by commas, e.g. `worker-0` (default: all tasks)."),
    Parameter("attempt", "Attempt of the job, or `all` (default: the current one)."),
    Parameter("taskAttempt", "Attempt of the tasks (default: all)."),
)
_JOB = f"{API}/jobs/{{namespace}}/{{name}}"
_ATTEMPT = r"{attempt:\d{1,9}}/tasks/{role:[a-z0-9]{1,63}}-{index:\d{1,5}}/{task_attempt:\d{1,9}}"

ROUTES: tuple[Route, ...] = (
    Route("GET", f"{API}/namespaces", jobs.namespaces, "List namespaces.", schema.Namespaces),
    Route(
        "GET",
        f"{API}/permissions",
        jobs.read_permissions,
        "Read what the viewer may do in a namespace.",
        schema.NamespacePermissions,
        query=(_NAMESPACE,),
    ),
    Route(
        "GET",
        f"{API}/cluster",
        metrics.read_cluster,
        "Describe nodes and waiting tasks.",
        schema.ClusterAnswer,
    ),
    Route("POST", f"{API}/files/lint", files.lint, "Check a file.", schema.LintAnswer, schema.LintRequest),
    Route(
        "POST",
        f"{API}/files/plan",
        files.plan,
        "Simulate a file's job.",
        schema.PlanAnswer,
        schema.PlanRequest,
    ),
    Route(
        "POST",
        f"{API}/files/submit",
        files.submit,
        "Submit a file.",
        schema.SubmitAnswer,
        schema.SubmitRequest,
    ),
    Route(
        "GET",
        f"{API}/jobs",
        jobs.list_jobs,
        "List jobs, also deleted ones that have records.",
        schema.JobList,
        query=(
            _NAMESPACE,
            Parameter("state", "States, separated by commas."),
            Parameter("q", "Text in the name or the message."),
            Parameter(
                "sort", "created, name, namespace, state, duration, started or finished; with - descending."
            ),
            Parameter("page", "Page, counted from 1."),
            Parameter("size", "Number of jobs of a page, at most 1000."),
        ),
    ),
    Route(
        "GET",
        f"{API}/jobs/stream",
        jobs.stream_jobs,
        "Follow jobs: events `rows`, first with all jobs, `ping` and `error`.",
        schema.JobRows,
        query=(_NAMESPACE,),
        content_type="text/event-stream",
    ),
    Route(
        "POST",
        f"{API}/jobs/actions",
        actions.act,
        "Stop, suspend, resume, delete or run jobs again.",
        schema.ActionResults,
        schema.ActionRequest,
    ),
    Route("GET", _JOB, jobs.read_job, "Read a job.", schema.JobDetail),
    Route(
        "GET",
        f"{_JOB}/stream",
        jobs.stream_job,
        "Follow a job: events `job`, `ping` and `error`.",
        schema.JobDetail,
        content_type="text/event-stream",
    ),
    Route(
        "GET",
        f"{_JOB}/timeline",
        jobs.read_timeline,
        "Read the attempts and events of a job.",
        schema.TimelineAnswer,
    ),
    Route(
        "GET",
        f"{_JOB}/attempts/{_ATTEMPT}",
        jobs.read_task_attempt,
        "Read an attempt of a task.",
        schema.TaskAttemptDetail,
    ),
    Route(
        "GET",
        f"{_JOB}/metrics",
        metrics.read_metrics,
        "Read usage and values of tasks, which are collected while somebody asks for them.",
        schema.MetricsAnswer,
        query=(_LOG_SELECTION[0],),
    ),
    Route(
        "GET",
        f"{_JOB}/logs",
        logs.read_logs,
        "Read or follow logs: one object per line, a log line or `{gap}`.",
        schema.LogLine,
        query=(
            *_LOG_SELECTION,
            Parameter("tail", "Number of last lines of each container (default: 500)."),
            Parameter("follow", "1: follow the logs of the current attempt until the job has completed."),
        ),
        content_type=logs.NDJSON,
    ),
    Route(
        "GET",
        f"{_JOB}/logs/search",
        logs.search_logs,
        "Search whole logs, regardless of case.",
        SearchResult,
        query=(
            *_LOG_SELECTION,
            Parameter("q", "The text."),
            Parameter("regex", "1: the text is a regular expression of RE2."),
        ),
    ),
    Route(
        "GET",
        f"{_JOB}/logs/download",
        logs.download_logs,
        "Download whole logs.",
        query=_LOG_SELECTION,
        content_type="text/plain",
    ),
)

"""Load on a Kubernetes API: jobs by the thousand, whoever controls them, and what it costs."""

"""`windlass why`: why a job failed, was retried or is pending."""

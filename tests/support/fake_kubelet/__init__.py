"""A simulated kubelet: reports pod statuses to an API server and runs nothing."""

"""Client of the Kubernetes API: requests as values, errors, list and watch, and `transport`, the only HTTP client."""

"""Controllers of the embedded cluster: workloads, garbage collection, volume claims, event TTL."""

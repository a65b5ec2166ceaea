"""The parts of `tools/cluster_dns.py`: the names of a cluster, and the responses to queries."""

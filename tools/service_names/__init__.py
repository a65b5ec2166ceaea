"""The parts of `tools/cluster_dns.py`: which names a cluster has, and what a question about one is answered with."""

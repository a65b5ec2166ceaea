"""The scheduler, which assigns pods to nodes. All modules are pure except `scheduler`, which watches and writes."""

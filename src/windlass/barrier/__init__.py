"""The init container that waits until every task of a Framework has an address, and writes the addresses for its pod.

It runs in all pods of a gang and delays all of them, so it is small: it uses Python's own HTTP client, and in the usual
case it makes only one request, to watch the Gang.
"""

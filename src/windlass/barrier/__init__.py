"""The init container that waits until every task of a Framework has an address, and tells the pod where they are.

It starts in every pod of a gang at once and is in the way of all of them, so it is small: it imports no HTTP client
but Python's own, makes one request, and ends as soon as it is answered.
"""

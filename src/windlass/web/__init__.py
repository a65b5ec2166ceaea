"""The server of the dashboard: its JSON API under /api/v1, sessions, and the files of the page.

Every request to the API server has the identity of the viewer. Everything that is read or changed in a cluster is a
function of `client`.
"""

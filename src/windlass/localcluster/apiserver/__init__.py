"""The embedded API server: a small kube-apiserver over SQLite.

A request takes this path:

1. `localcluster.server` listens, authenticates and maps errors to Status objects (the handler chain of kube-apiserver).
2. `request_info` parses the path (RequestInfo). `meta_endpoints` serves discovery, OpenAPI and health checks,
   `pod_metrics` serves metrics.k8s.io (metrics-server), and `handlers` everything about objects (`endpoints/handlers`).
3. `handlers` calls `lists` and `watches` to read, `lifecycle` to create, update and delete (`registry/generic`), and
   `subresources` and `streams` for scale, binding, eviction, logs, exec, attach and port-forward.
4. `lifecycle` decodes and validates an object with `admission` and `metadata`, calls the `strategy` of its kind, and
   writes to `localcluster.store` (etcd).
5. `responses` encodes the result, as a table if requested (`printing`).

`registry` holds the kinds: the built-in ones (`kinds`, validated by `checks` and `schemas.typed`) and custom
resources (`definitions` and `schemas.structural`, the apiextensions-apiserver).
"""

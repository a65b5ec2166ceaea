"""Kubernetes' protobuf: encodes manifests of built-in kinds, and decodes objects, views of them and watch events."""

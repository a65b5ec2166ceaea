"""Validation shared by several kinds (`pkg/apis/core/validation` in Kubernetes).

`basics` has the building blocks. Every check yields field errors with the messages and in the order of Kubernetes.
"""

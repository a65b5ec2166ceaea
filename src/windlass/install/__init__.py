"""What a cluster needs to run the controller: definitions, permissions, a Deployment; and how they get there and go.

The manifests are values. `applying` and `removing` carry them to an API server through `kubeapi`.
"""

"""The kubelet of the embedded cluster: runs the pods of its nodes as processes, and writes their status.

`lifecycle` and `containers` decide what to do; they start and mount nothing. The processes of the package
`sandbox` run the containers; the kubelet talks to these processes over sockets.
"""

"""Pod workers: start, monitor, stop and remove the containers of a pod."""

"""The life of a pod as a kubelet sees it: what happens next, and what its status says. Pure; time is an argument."""

"""Network namespaces of pods: bridge, links, and access to the outside."""

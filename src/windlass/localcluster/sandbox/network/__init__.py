"""The pod network: bridge, links, and access to other networks."""

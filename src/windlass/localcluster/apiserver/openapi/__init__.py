"""Discovery and OpenAPI documents, computed from the kinds without I/O."""

"""What the server says about its kinds: discovery and OpenAPI. Pure."""

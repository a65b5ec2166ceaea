"""The API server: from a request to what `lifecycle`, `lists` and `watches` do, and back."""

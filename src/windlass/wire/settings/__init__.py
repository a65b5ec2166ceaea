"""The controller settings: file, environment variables and flags."""

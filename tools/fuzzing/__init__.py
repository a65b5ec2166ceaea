"""The parts of `tools/fuzz_api.py`: what it sends to the embedded API server, and how it judges the answers."""

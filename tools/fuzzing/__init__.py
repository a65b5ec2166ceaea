"""The parts of `tools/fuzz_api.py`: requests to the embedded API server, and checks of its responses."""

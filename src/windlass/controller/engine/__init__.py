"""Queue, cache and executor: observe a Framework, decide, store, act."""

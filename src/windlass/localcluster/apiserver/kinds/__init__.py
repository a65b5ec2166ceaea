"""The built-in kinds: `table` lists them, the other modules have their strategies (see `apiserver.strategy`)."""

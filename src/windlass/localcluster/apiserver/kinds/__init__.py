"""One small file for what is peculiar to a kind; `localcluster/strategy.py` says what that may be."""

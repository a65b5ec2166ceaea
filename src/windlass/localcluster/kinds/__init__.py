"""One small file for what is peculiar to a kind; `strategy.py` says what that may be."""

"""The command line: one command per file, each a thin layer over what the other modules do."""

"""`windlass upload`: copy files to a local folder, an NFS share or a claim, and verify checksums."""

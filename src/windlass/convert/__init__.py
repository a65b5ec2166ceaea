"""Convert jobs of other systems, e.g. TFJobs and JobSets, to job files. No I/O."""

"""Reports about jobs: everything that is known about a job, in one file. `writing` writes them."""

"""Submit jobs: read a file, plan the objects, create them."""

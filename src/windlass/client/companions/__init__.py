"""TensorBoard, JupyterLab and JupyterHub of a job: create them, find them, forward a port to them."""

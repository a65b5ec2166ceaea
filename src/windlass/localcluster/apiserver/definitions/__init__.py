"""What is right and wrong in a custom resource definition. Pure."""

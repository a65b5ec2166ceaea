"""What a patch makes of an object. Pure."""

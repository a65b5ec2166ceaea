"""Checks of a Framework file beyond its structure, and automatic fixes."""

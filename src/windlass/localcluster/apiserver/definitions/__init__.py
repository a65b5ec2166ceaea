"""Validation of CustomResourceDefinitions (`apiextensions/validation`), without I/O."""

"""What an object looks like: types of built-in kinds, schemas of custom ones, defaults. Pure."""

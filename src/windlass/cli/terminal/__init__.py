"""Terminal output: tables, text width, colours, progress bars, the live view."""

"""The page: a document, and the script that recombines grids timed in Python."""

"""Text from outside to checked values: YAML, JSON, tables, and how they are refused."""

"""How checkpoints store their matrices: quantisation configs, their module lists and formats."""

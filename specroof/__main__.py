"""`python -m specroof` is the command line."""

from specroof.cli import main

main()

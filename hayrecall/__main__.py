"""`python -m hayrecall` is the `hayrecall` command."""

from hayrecall.cli.app import main

main()

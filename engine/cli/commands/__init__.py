"""One file per noun. Each has a ``command`` that ``engine.cli.tree`` loads when its name is called.

A new noun is a file here and a line in the table of ``engine/cli/tree.py``.
"""

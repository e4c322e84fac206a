"""Talking to a person or a program: the command line, print and JSON modes.

May import every floor below. A mode draws what a session says and hands it what it is told; it holds no rule of either.
Start reading at `cli.py` (start order, exit codes), then `arguments.py` (the command line as a plan).
"""

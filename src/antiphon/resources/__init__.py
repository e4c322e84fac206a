"""Where things lie on this machine, and what people have written down for their agents.

Imports the ground floor only. Files become values, with diagnostics instead of exceptions; asking creates nothing.
Start reading at `paths.py`.
"""

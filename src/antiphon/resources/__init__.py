"""Where things lie on this machine, and what people have written down for their agents.

Imports the ground floor only. Files become values, with diagnostics instead of exceptions; asking creates nothing.
Each value says where it came from and why it counts. Start reading at `paths.py` and `loading.py` (everything for one
working folder), then `settings.py`, `trust.py`, `credentials.py`; `skills.py`, `templates.py`, `context_files.py` are
the texts a conversation may use.
"""

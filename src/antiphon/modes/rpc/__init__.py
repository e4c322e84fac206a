"""A program drives a conversation: commands come in as lines of JSON, answers and events go out.

`protocol.py` (what may be said; pure), `lines.py` (bytes to lines; pure), `dispatch.py` (one command after the other,
up to the point where it is accepted), `stdio.py` (the two ends of a process), `client.py` (the other side, for Python
programs). `schema.py` writes the one schema of all of it.
"""

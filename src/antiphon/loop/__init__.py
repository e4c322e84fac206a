"""The loop: performs what the machine of the core asks for.

Imports the ground floor only; it has never heard of a provider or a file. Start reading at `driver.py`, then
`boundary.py` (the border to foreign code) and `tool_call.py` (one call from start to outcome).
"""

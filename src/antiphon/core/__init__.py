"""Values and pure functions: messages, events, and the loop as a state machine. No I/O, no clock, no asyncio.

Imports `msgspec` and pure parts of the standard library. Start reading at `machine.py` (the table `ROWS` is the
story of a run) and `states.py` (its nouns).
"""

"""One conversation as a product: an agent, its log, and the rules between runs.

Imports every floor below. Start reading at `agent_session.py`, then `create.py`.
"""

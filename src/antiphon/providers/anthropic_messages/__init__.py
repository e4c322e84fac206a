"""Anthropic Messages: `POST /v1/messages`, and every server that speaks it.

`encode`, `items` and `tools` turn a conversation into a request, `decode` and `counts` turn stream events into response
events (all pure), `sessions` decides what the server already holds, `client` puts them together: start there.
May import: its neighbours in `providers` that are shared by all protocols, and the ground floor.
"""

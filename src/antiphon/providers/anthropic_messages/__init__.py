"""Anthropic Messages: `POST /v1/messages`, and every server that speaks it.

`encode` turns a conversation into a request (pure), `decode` turns stream events into response events (pure), `threads`
decides what a server already holds, `client` puts them together. Start with `client.AnthropicMessages`.
May import: its neighbours in `providers` that are shared by all protocols, and the ground floor.
"""

"""Google Gemini: `POST /models/MODEL:streamGenerateContent`, and servers that speak it.

`dialect` knows models by their ids, `encode` and `items` turn a conversation into a request, `decode` (with
`partial_args`) turns stream chunks into response events (all pure), `client` connects them: start there.
May import: its neighbours in `providers` that are shared by all protocols, and the ground floor.
"""

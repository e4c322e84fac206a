"""Google Gemini: `POST /models/MODEL:streamGenerateContent`, and servers that speak it.

`encode` turns a conversation into a request (pure), `decode` turns stream chunks into response events (pure),
`partial_args` puts streamed call arguments together, `client` connects them. Start with `client.GoogleGenerativeAi`.
May import: its neighbours in `providers` that are shared by all protocols, and the ground floor.
"""

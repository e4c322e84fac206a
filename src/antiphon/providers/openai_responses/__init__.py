"""OpenAI Responses and compatible servers.

`encode` turns a conversation into a request, `decode` a stream into events (both pure), `client` puts them together.
Imports core and the shared files of `providers`. Start reading with `client`.
"""

from __future__ import annotations

"""Model providers: a transcript becomes one HTTP request, the streamed answer becomes response events.

One package per wire protocol (`openai_completions`, `openai_responses`, `anthropic_messages`, `google_generative_ai`),
each with `encode` and `decode` (pure) and `client` (glue). What they share lies beside them; `exchange` is the driver,
`http` the one place that opens connections. Start reading with `registry` and `exchange`.
Imports errors and core only. Importing this package loads neither an adapter nor an HTTP library.
"""

from __future__ import annotations

from antiphon.providers.catalog import key_for, list_models, resolve
from antiphon.providers.registry import stream_for

__all__ = ["key_for", "list_models", "resolve", "stream_for"]

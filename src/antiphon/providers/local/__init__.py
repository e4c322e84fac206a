"""A small language model inside this process: no key, no network, no cost.

It is there for tests, demos and a first run, never for real work: it is tiny and often wrong. `model` says what it is
and whether it is installed (extra `local`), `engine` runs it on a thread of its own, `client` makes it a model stream.
Imports core, errors and the shared files of `providers`; the inference library is loaded at the first question.
"""

from __future__ import annotations

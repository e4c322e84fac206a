"""Sending a request until somebody answers it: transport faults, refusals, and waits between attempts.

What may be tried again and how long to wait is decided by `retry_after`; this file does the waiting. A stream that has
begun is never asked for again. Source: providers specification 8.4.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress
from typing import Final, final
from urllib.parse import urlsplit

from msgspec import Struct

from antiphon.core.model import Model
from antiphon.providers import failures, http, wire_json
from antiphon.providers.call import Call
from antiphon.providers.failures import ErrorReply, Failure
from antiphon.providers.http import HttpReply
from antiphon.providers.options import CallOptions
from antiphon.providers.patience import CallOver, Patience
from antiphon.providers.retry_after import AskedWait, asked_wait, own_wait_ms, wants_retry

MAX_ERROR_BODY_BYTES: Final = 1024 * 1024
ERROR_BODY_MS: Final = 30_000
MAX_REPLACED_CALLS: Final = 4


class _Refused(Struct, frozen=True):
    """An attempt that did not lead to an answer. `again`: it may be made once more as it is."""

    failure: Failure
    again: bool
    asked: AskedWait | None = None
    instead: Call | None = None


@final
class Attempts:
    """The attempts of one call."""

    def __init__(self, model: Model, options: CallOptions, patience: Patience) -> None:
        self._model = model
        self._options = options
        self._patience = patience

    async def accepted(self, call: Call) -> tuple[Call, HttpReply]:
        """The call that was accepted (this one, or one it was replaced by) and its unread reply.

        Raises:
            CallOver: no attempt led to an answer.
        """
        attempt = replaced = 0
        while True:
            reply = await self._attempt(call)
            if not isinstance(reply, _Refused):
                return call, reply
            if reply.instead is not None and replaced < MAX_REPLACED_CALLS:
                call, replaced = reply.instead, replaced + 1
                continue
            if not reply.again or attempt >= self._options.max_retries:
                raise CallOver(reply.failure)
            await self._pause(attempt, reply)
            attempt += 1

    async def _attempt(self, call: Call) -> HttpReply | _Refused:
        transport = self._options.transport or http.send
        sent = transport(call.request, connect_seconds=self._options.connect_timeout_ms / 1000)
        try:
            reply = await self._patience.within(sent, self._options.timeout_ms, "answer")
        except CallOver as over:
            if over.failure.kind == "aborted":
                raise
            return _Refused(over.failure, again=True)
        except ImportError:
            raise CallOver(failures.cannot_send("the HTTP library is missing; install antiphon[http]")) from None
        except ValueError as error:  # an address or header that cannot be sent
            raise CallOver(failures.cannot_send(failures.explain(error))) from error
        except Exception as error:  # noqa: BLE001 - whatever a transport raises
            self._patience.check()
            return _Refused(lost(error, self._model), again=True)
        return reply if 200 <= reply.status < 300 else await self._refusal(call, reply)

    async def _refusal(self, call: Call, reply: HttpReply) -> _Refused:
        told = await self._told(reply)
        asked = asked_wait(told.headers, told.json, time.time() * 1000)
        failure = failures.http_error(self._model.provider, told, asked)
        return _Refused(failure, wants_retry(told.status, told.headers), asked, call.refused(told))

    async def _told(self, reply: HttpReply) -> ErrorReply:
        """What a refused request was told. A body that breaks off counts as far as it came."""
        body = bytearray()
        try:
            with suppress(CallOver):
                await self._patience.within(_read_into(body, reply), ERROR_BODY_MS, "error body")
        except Exception:  # noqa: BLE001 - the status says enough
            pass
        finally:
            with suppress(Exception):
                await reply.close()
        self._patience.check()
        text = body.decode("utf-8", "replace")
        try:
            value = wire_json.read(text) if text.strip() else None
        except ValueError:
            value = None
        return ErrorReply(reply.status, reply.headers, text, value)

    async def _pause(self, attempt: int, refused: _Refused) -> None:
        cap, asked = self._options.max_retry_delay_ms, refused.asked
        if asked is not None and 0 < cap < asked.ms:
            note = f"The server asks to wait {asked.ms / 1000:g} s, the limit for a retry delay is {cap / 1000:g} s."
            raise CallOver(failures.with_note(refused.failure, note))
        wait = own_wait_ms(attempt, random.random()) if asked is None else asked.ms  # noqa: S311
        await self._patience.within(asyncio.sleep(wait / 1000), None, "")


async def _read_into(body: bytearray, reply: HttpReply) -> None:
    async for piece in reply.pieces():
        body += piece
        if len(body) >= MAX_ERROR_BODY_BYTES:
            return


def lost(error: Exception, model: Model) -> Failure:
    """What a network fault means, with the host that was asked."""
    host = host_of(model.base_url)
    return failures.connection_lost(f"{failures.explain(error)} ({host})" if host else error)


def host_of(url: str) -> str:
    """The host that an address names; empty if it names none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_this_machine(url: str) -> bool:
    """Does the address name this machine, whose servers ask for no key?"""
    host = host_of(url)
    return host in ("localhost", "::1") or host.startswith("127.")

"""The one place that opens connections (library: httpx2, loaded at the first request).

A `Transport` sends one request and gives back a reply whose body has not been read. Tests, and hosts with a network
stack of their own, put another one in its place (`options["transport"]`). Proxies come from the environment, except for
addresses of this machine. Redirects are not followed: a key must not travel to an address nobody configured.

A kept connection may end in the moment it is used again, because the server has just tired of it. If it ends before the
head of a reply, the request is sent once more, on a fresh connection: nothing was answered, so nothing is told twice.
Not so if the connection was new, if a reply had begun or was no HTTP, after a time-out or an abort, or a second time.
"""

from __future__ import annotations

import asyncio
import base64
import os
import weakref
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, final
from urllib.parse import unquote

from msgspec import Struct

if TYPE_CHECKING:
    import ssl

    import httpx2

_KEEP_IDLE_CONNECTIONS = 32
_STREAMS_OF_A_POOL = 64
_IDLE_SECONDS = 15.0
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_THIS_MACHINE = ("all://localhost", "all://127.0.0.1", "all://[::1]")


@final
class HttpRequest(Struct, frozen=True):
    """A POST request. Header names are lower case. Its repr shows no header and no body: they hold secrets."""

    url: str
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"<POST of {len(self.body)} bytes>"


class HttpReply(Protocol):
    """Status and headers (lower-case names); the body comes in pieces, decompressed."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def pieces(self) -> AsyncIterator[bytes]:
        """The body. Raises what the network raises."""
        ...

    async def close(self) -> None:
        """Let go of the connection; one whose body was not read to the end is closed. May be called twice."""
        ...


class Transport(Protocol):
    """Send a request and wait for the head of the reply. Raises what the network raises; being cancelled gives up."""

    async def __call__(self, request: HttpRequest, *, connect_seconds: float) -> HttpReply: ...


@final
class _Reply:
    __slots__ = ("_pool", "_response", "headers", "status")

    def __init__(self, response: httpx2.Response, pool: _Pool) -> None:
        self._response = response
        self._pool: _Pool | None = pool
        self.status = response.status_code
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}

    def pieces(self) -> AsyncIterator[bytes]:
        return self._response.aiter_bytes()

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        try:
            await self._response.aclose()
        finally:
            if pool is not None:
                await pool.leave()


@lru_cache(maxsize=4)
def _trusted(_file: str | None, _folder: str | None) -> ssl.SSLContext:
    """Whom connections trust, which the environment may say. All loops share it: reading it takes 30 ms."""
    import httpx2

    return httpx2.create_ssl_context()


@lru_cache(maxsize=1)
def _trusting_nobody() -> ssl.SSLContext:
    """For a client that is never asked by https: it reads no certificates, and would refuse each one."""
    import ssl

    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@final
class _Rack:
    """The pools of one event loop for addresses of one kind: plain ones, or all others."""

    def __init__(self, *, plain: bool) -> None:
        self.plain = plain
        self.pools: list[_Pool] = []

    def entered(self, *, fresh: bool) -> _Pool:
        """A pool for one more stream; `fresh`: one without connections."""
        roomy = None if fresh else next((pool for pool in self.pools if pool.streams < _STREAMS_OF_A_POOL), None)
        if roomy is None:
            self.pools.append(roomy := _Pool(self))
        roomy.streams += 1
        return roomy


@final
class _Pool:
    """Connections of one client. The client looks at all of them for each request, so it must not have many."""

    def __init__(self, rack: _Rack) -> None:
        import httpx2

        self._rack = rack
        self.streams = 0
        trusted = _trusting_nobody() if rack.plain else _trusted(*map(os.environ.get, _CERTIFICATES))
        self.client = httpx2.AsyncClient(
            timeout=None,
            limits=httpx2.Limits(
                max_connections=None,
                max_keepalive_connections=_KEEP_IDLE_CONNECTIONS,
                keepalive_expiry=_IDLE_SECONDS,
            ),
            follow_redirects=False,
            mounts=dict.fromkeys(_THIS_MACHINE, None),
            verify=trusted,
        )

    def retire(self) -> None:
        """Serve what has begun, and nothing else."""
        with suppress(ValueError):  # it was retired before
            self._rack.pools.remove(self)

    async def leave(self) -> None:
        """One of the streams is over. A pool that is not the first closes with its last stream."""
        self.streams -= 1
        if not self.streams and self not in self._rack.pools[:1]:
            self.retire()
            await self.client.aclose()


_racks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[bool, _Rack]] = weakref.WeakKeyDictionary()


def _rack(url: str) -> _Rack:
    """The rack for this address. Plain http has one of its own, because certificates take 30 ms to read."""
    plain = url[:7].lower() == "http://"
    racks = _racks.setdefault(asyncio.get_running_loop(), {})
    if plain not in racks:
        racks[plain] = _Rack(plain=plain)
    return racks[plain]


@final
class _Steps:
    """What the library tells of its steps: whether it opened a connection."""

    __slots__ = ("connected",)

    def __init__(self) -> None:
        self.connected = False

    async def __call__(self, step: str, _: Mapping[str, Any]) -> None:
        if ".connect_" in step:
            self.connected = True


async def send(request: HttpRequest, *, connect_seconds: float) -> HttpReply:
    """The default transport. Waits for the connection at most `connect_seconds`; longer waits are the caller's.

    Raises:
        ValueError: an address or header that cannot be sent.
    """
    import httpx2

    try:
        try:
            return await _sent(request, connect_seconds, fresh=False)
        except _KeptConnectionEnded:
            return await _sent(request, connect_seconds, fresh=True)
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError) as error:
        raise ValueError(str(error)) from error


class _KeptConnectionEnded(Exception):
    """There was no reply on it."""


async def _sent(request: HttpRequest, connect_seconds: float, *, fresh: bool) -> _Reply:
    """The reply, on a fresh connection if that is asked for.

    Raises:
        _KeptConnectionEnded: on another one, that was not fresh.
    """
    import httpx2

    pool = _rack(request.url).entered(fresh=fresh)
    steps = _Steps()
    try:
        url, headers = _without_credentials(request)
        prepared = pool.client.build_request(
            "POST",
            url,
            headers=headers,
            content=request.body,
            timeout=httpx2.Timeout(None, connect=connect_seconds),
            extensions={"trace": steps},
        )
        return _Reply(await pool.client.send(prepared, stream=True), pool)
    except BaseException as error:
        kept_ended = not fresh and not steps.connected and _ended_unanswered(error)
        if kept_ended:
            pool.retire()  # its other idle connections may have ended, too
        await pool.leave()
        if kept_ended:
            raise _KeptConnectionEnded from error
        raise


def _without_credentials(request: HttpRequest) -> tuple[str, dict[str, str]]:
    """Address and headers, with credentials in the address as a header: the library logs addresses."""
    headers = dict(request.headers)
    scheme, _, rest = request.url.partition("://")
    place, slash, path = rest.partition("/")
    if "@" not in place:
        return request.url, headers
    words, _, host = place.rpartition("@")
    name, _, password = words.partition(":")
    pair = f"{unquote(name)}:{unquote(password)}".encode()
    headers["authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    return f"{scheme}://{host}{slash}{path}", headers


def _ended_unanswered(error: BaseException) -> bool:
    """Did the connection end without a reply? A reply that is no HTTP is one."""
    import httpx2

    if isinstance(error, httpx2.RemoteProtocolError):
        return "without sending a response" in str(error)
    return isinstance(error, httpx2.ReadError | httpx2.WriteError)


async def close_connections() -> None:
    """Close the connections of the running event loop; a later request opens new ones."""
    racks = _racks.pop(asyncio.get_running_loop(), {})
    for pool in [pool for rack in racks.values() for pool in rack.pools]:
        await pool.client.aclose()

"""The one place that opens connections (library: httpx2, loaded at the first request).

A `Transport` sends one request and gives back a reply whose body has not been read. Tests, and hosts with a network
stack of their own, put another one in its place (`options["transport"]`). Proxies come from the environment, except for
addresses of this machine. Redirects are not followed: a key must not travel to an address nobody configured.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final

if TYPE_CHECKING:
    import httpx2

_KEEP_IDLE_CONNECTIONS = 32
_IDLE_SECONDS = 15.0
_THIS_MACHINE = ("all://localhost", "all://127.0.0.1", "all://[::1]")


@dataclass(frozen=True, slots=True, repr=False)
class HttpRequest:
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
    __slots__ = ("_response", "headers", "status")

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}

    def pieces(self) -> AsyncIterator[bytes]:
        return self._response.aiter_bytes()

    async def close(self) -> None:
        await self._response.aclose()


_clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient] = weakref.WeakKeyDictionary()


def _client() -> httpx2.AsyncClient:
    """The connection pool of the running event loop."""
    loop = asyncio.get_running_loop()
    client = _clients.get(loop)
    if client is None:
        import httpx2

        client = httpx2.AsyncClient(
            timeout=None,
            limits=httpx2.Limits(
                max_connections=None,
                max_keepalive_connections=_KEEP_IDLE_CONNECTIONS,
                keepalive_expiry=_IDLE_SECONDS,
            ),
            follow_redirects=False,
            mounts=dict.fromkeys(_THIS_MACHINE, None),
        )
        _clients[loop] = client
    return client


async def send(request: HttpRequest, *, connect_seconds: float) -> HttpReply:
    """The default transport. Waits for the connection at most `connect_seconds`; longer waits are the caller's.

    Raises:
        ValueError: an address or header that cannot be sent.
    """
    import httpx2

    client = _client()
    try:
        prepared = client.build_request(
            "POST",
            request.url,
            headers=dict(request.headers),
            content=request.body,
            timeout=httpx2.Timeout(None, connect=connect_seconds),
        )
        return _Reply(await client.send(prepared, stream=True))
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError) as error:
        raise ValueError(str(error)) from error


async def close_connections() -> None:
    """Close the idle connections of the running event loop; a later request opens new ones."""
    client = _clients.pop(asyncio.get_running_loop(), None)
    if client is not None:
        await client.aclose()

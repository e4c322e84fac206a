"""Runs the embedded model (library: xllamacpp, loaded at the first question). One model and one thread per process.

All work is done on one daemon thread, one answer after the other: this is a small model on one core, and two answers at
once would each take twice as long. While it computes, the interpreter lock is free; while it is loaded, for about a
second, the library holds it.

Beside the in-process entry the library opens an HTTP port of this machine; a random key keeps everybody out.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import os
import queue
import secrets
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast, final

from msgspec import Struct

from antiphon.core.wire import JsonObject
from antiphon.errors import ProviderError
from antiphon.providers.local.model import HOW_TO_INSTALL

THREADS_VARIABLE: Final = "ANTIPHON_LOCAL_THREADS"
"""Environment variable: inference threads. On a busy machine two are ten times slower than one."""

_SILENT: Final = -1
_BATCH_TOKENS: Final = 128
_EXIT_SECONDS: Final = 5.0
_ADVICE: Final = f"Install it ({HOW_TO_INSTALL}), or set ANTIPHON_LOCAL_MODEL to a GGUF file."


class Fault(Struct, frozen=True):
    """Why there is no answer, or no more of it."""

    text: str


@final
class Generation:
    """One answer being made. `chunks`, on the event loop of whoever asked, ends with a `Fault` or None."""

    def __init__(self, body: JsonObject) -> None:
        self._body = body
        self._loop = asyncio.get_running_loop()
        self._stopped = threading.Event()
        self.chunks: asyncio.Queue[JsonObject | Fault | None] = asyncio.Queue()

    def stop(self) -> None:
        """No more is wanted. The model stops within a token, or a batch while it still reads the prompt."""
        self._stopped.set()

    def run(self, ready: Callable[[], Any]) -> None:
        """Make the answer with the server that `ready` gives. Called on the engine's thread."""
        if self._stopped.is_set():
            return
        try:
            ready().handle_chat_completions(self._body, self._chunk)
        except Exception as error:  # noqa: BLE001 - whoever asked is told
            self.end(Fault(str(error) or type(error).__name__))
        else:
            self.end(None)

    def end(self, last: Fault | None) -> None:
        """Say that nothing more comes."""
        self._tell(last)

    def _chunk(self, chunk: Any) -> bool:
        """Hand a chunk on. True stops the model."""
        self._tell(cast("JsonObject", chunk))
        return self._stopped.is_set()

    def _tell(self, item: JsonObject | Fault | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self.chunks.put_nowait, item)
        except RuntimeError:  # the event loop is closed, nobody listens
            self._stopped.set()


@final
class Engine:
    """The model and its thread; both come with the first question. `window` is in tokens."""

    def __init__(self, file: Callable[[], Path | None], name: str, window: int) -> None:
        self._file = file
        self._name = name
        self._window = window
        self._is_copy = False
        self._watches_forks = False
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._server: Any = None
        self._loaded: Path | None = None
        self._work: queue.SimpleQueue[Generation | None] = queue.SimpleQueue()
        self._current: Generation | None = None
        self._thread: threading.Thread | None = None

    def ask(self, body: JsonObject) -> Generation:
        """Start an answer to a Chat Completions request. To be called on an event loop."""
        generation = Generation(body)
        with self._lock:
            if self._thread is None:
                self._start()
            self._work.put(generation)
        return generation

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._serve, name="antiphon-local-model", daemon=True)
        self._thread.start()
        atexit.register(self.close)
        if not self._watches_forks:
            self._watches_forks = True
            os.register_at_fork(after_in_child=self._forked)

    def close(self) -> None:
        """Stop what runs, refuse what waits, free the model; takes a few seconds at most. Questions may follow."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is None:
                return
            atexit.unregister(self.close)
            while not self._work.empty():
                waiting = self._work.get()
                if waiting is not None:
                    waiting.end(Fault("the embedded model was closed"))
            self._work.put(None)
            current = self._current
        if current is not None:
            current.stop()
        thread.join(_EXIT_SECONDS)

    def _forked(self) -> None:
        """In a child process: begin anew. The threads stayed with the parent, so freeing the model would hang.

        Such a child should end as `multiprocessing` ends its own (`os._exit`): the library waits for ever in `exit`.
        """
        _never_free(self._server)
        self._is_copy = True
        self._begin()

    def _serve(self) -> None:
        while (generation := self._work.get()) is not None:
            self._current = generation
            generation.run(self._ready)
            self._current = None
        if self._is_copy:
            _never_free(self._server)  # the library does not survive its own end in a forked process
        self._server = None

    def _ready(self) -> Any:
        """The loaded server; another one if the file is another."""
        file = self._file()
        if self._server is None or file != self._loaded:
            self._server = None
            self._server = load(file, self._name, self._window)
            self._loaded = file
        return self._server


def _never_free(server: Any) -> None:
    """Keep it for good, the end of the process included."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))


def load(file: Path | None, name: str, window: int) -> Any:
    """A server of the library for this GGUF file, which says nothing on stdout or stderr.

    Raises:
        ProviderError: library or file are missing, or the file cannot be used.
    """
    if file is None:
        raise ProviderError(f"The embedded model is not installed. {_ADVICE}")
    if not file.is_file():
        raise ProviderError(f"The embedded model cannot be loaded: there is no file {file}. {_ADVICE}")
    try:
        library = import_module("xllamacpp")
    except ImportError as error:
        raise ProviderError(f"The library xllamacpp, which runs the embedded model, is missing. {_ADVICE}") from error
    try:
        return library.Server(_params(library, file, name, window))
    except RuntimeError as error:
        with file.open("rb") as opened:
            is_gguf = opened.read(4) == b"GGUF"
        kind = "damaged, too large, or of a kind that xllamacpp does not know" if is_gguf else "no GGUF file"
        raise ProviderError(f"The embedded model cannot be loaded: {file} is {kind}. {_ADVICE}") from error


def _params(library: Any, file: Path, name: str, window: int) -> Any:
    params = library.CommonParams()
    params.model.path = str(file)
    params.model_alias = {name}
    params.n_ctx = window
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = _BATCH_TOKENS  # a stop is noticed between batches
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = _threads()
    params.n_threads_http = 1
    params.n_gpu_layers = 0
    params.cache_ram_mib = 0
    params.warmup = params.fit_params = params.ui = params.endpoint_slots = False
    params.offline = True
    params.verbosity = _SILENT
    params.api_keys = [secrets.token_urlsafe(32)]
    return params


def _threads() -> int:
    given = os.environ.get(THREADS_VARIABLE, "")
    return max(1, min(int(given), os.cpu_count() or 1)) if given.isascii() and given.isdigit() else 1

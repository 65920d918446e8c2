"""`agent-mail serve` as a process, and one who asks it with the standard library's client.  For tests; no fixture."""

import http.client
import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import proc
from faces.program import Program

LIMIT = 60.0  # seconds that an answer may take before it counts as none


class Answer:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()

    def __repr__(self) -> str:
        return f"<{self.status} {self.body[:300]!r}>"


class Served:
    """A server of `mail`'s spool.  `options` as on the command line; a port that is free unless one is named."""

    def __init__(self, mail: Program, *options: str, port: int = 0) -> None:
        self.mail, self._options, self.port = mail, options, port
        self.keys = mail.place / "http-keys"
        self.log = mail.place / "serve.log"

    def __enter__(self) -> "Served":
        words = [self.mail.command, "serve", "--port", str(self.port), "--key-file", str(self.keys), *self._options]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(words, env=self.mail.environ, stdout=subprocess.PIPE, stderr=log)
        assert self.process.stdout
        lines = []
        while (line := self.process.stdout.readline()) and line != b"}\n":
            lines.append(line)
        assert line, f"it does not serve: {self.log.read_text()}"
        self.told = json.loads(b"".join([*lines, line]))
        if self.told["serving"].startswith("http"):
            self.port = int(self.told["serving"].rsplit(":", 1)[1].strip("/"))
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self, kill: bool = False) -> int:
        if self.process.poll() is None:
            self.process.kill() if kill else self.process.terminate()
        status = self.process.wait(LIMIT)
        if self.process.stdout:
            self.process.stdout.close()
        return status

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def key(self, name: str = "*") -> str:
        [key] = [line.split()[1] for line in self.keys.read_text().splitlines() if line.split()[0] == name]
        return key

    def bearer(self, name: str = "*") -> dict[str, str]:
        return {"authorization": f"Bearer {self.key(name)}"}

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """One request; a body that is no text or bytes goes as JSON."""
        data = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # refused before the body was sent: it has answered
                connection.request(method, path, data, headers or {})
            answer = connection.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, told, answer.read())
        finally:
            connection.close()

    def send(self, to: str, subject: str = "a task", sender: str = "hub", **members: Any) -> str:
        told = self.ask("POST", "/messages/", {"from_agent": sender, "to_agent": to, "subject": subject, **members})
        assert told.status == 201, told
        return str(told.json["id"])

    def raw(self, data: bytes, timeout: float = LIMIT) -> bytes:
        """What comes back for these bytes, until the server closes (or the time is over).

        One that closes before it has taken them all ends the connection with a reset: what it had said came before.
        """
        with socket.create_connection(("127.0.0.1", self.port), timeout) as wire:
            found = b""
            with suppress(BrokenPipeError, ConnectionResetError):
                wire.sendall(data)
            with suppress(TimeoutError, ConnectionResetError):
                while chunk := wire.recv(65536):
                    found += chunk
            return found

    @contextmanager
    def events(self, headers: dict[str, str] | None = None) -> Iterator["Listener"]:
        listener = Listener(self.port, headers or {})
        try:
            yield listener
        finally:
            listener.close()

    def memory(self) -> int:
        return proc.private_bytes(self.process.pid)

    def inotify_instances(self) -> int:
        return proc.inotify_instances(self.process.pid)


class Listener:
    """One who listens to /events: `events` are (kind, members) as they came."""

    def __init__(self, port: int, headers: dict[str, str]) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
        self.connection.request("GET", "/events", headers=headers)
        self.answer = self.connection.getresponse()
        self.wire = self.connection.sock
        self.events: list[tuple[str, Any]] = []
        self.last: str | None = None
        self.failed: str | None = None
        self._thread = threading.Thread(target=self._listen, name="listener of a test", daemon=True)
        if self.answer.status == 200:
            self._thread.start()

    def _listen(self) -> None:
        fields: dict[str, str] = {}
        try:
            for line in self.answer:
                text = line.decode().rstrip("\n")
                if text and not text.startswith(":"):
                    name, _, value = text.partition(": ")
                    fields[name] = value
                elif not text and "event" in fields:
                    self.last = fields.get("id", self.last)
                    self.events.append((fields["event"], json.loads(fields["data"])))
                    fields = {}
                elif not text:
                    fields = {}
        except (OSError, ValueError, http.client.HTTPException, AttributeError) as error:
            self.failed = type(error).__name__

    def until(self, kind: str, **members: Any) -> dict[str, Any]:
        """The first event of this kind with these members, waited for."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            for told, data in list(self.events):
                if told == kind and members.items() <= data.items():
                    return dict(data)
            time.sleep(0.01)
        raise AssertionError(f"no {kind} with {members} among {self.events}")

    def close(self) -> None:
        if self.wire is not None:
            try:
                self.wire.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        if self._thread.is_alive():
            self._thread.join(LIMIT)
        self.answer.close()
        self.connection.close()

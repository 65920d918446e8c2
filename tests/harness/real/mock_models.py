"""Model APIs on loopback that say what a script tells them: enough of Anthropic's, OpenAI's and Google's for clients.

A rule is used once: `{"sees": text, "tool": name, "input": {…}}` calls a tool as soon as `text` stands in what the
client sends and a tool whose name ends in `name` is offered.  Without a rule the model says "reply N".  What the
clients sent is kept in `requests`.
"""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Model:
    def __init__(self, rules=()):
        self.rules = list(rules)
        self.requests: list[dict] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def texts(self) -> list[str]:
        """What each request that offers tools says in its messages, as one text."""
        return [request["text"] for request in self.requests if request["tools"]]

    def _answer(self, messages, tools) -> dict:
        """`{"say": text}` or `{"tool": name, "input": …}`."""
        text = json.dumps(messages, ensure_ascii=False)
        names = [name for name in (tool.get("name") for tool in tools) if name]
        for tool in tools:  # Codex groups the tools of a server
            names += [f"{tool['name']}/{inner['name']}" for inner in tool.get("tools", []) if "name" in inner]
        with self._lock:
            self.requests.append({"text": text, "tools": names})
            if names:
                for rule in self.rules:
                    name = next((n for n in names if n.endswith(rule["tool"])), None)
                    if rule["sees"] in text and name:
                        self.rules.remove(rule)
                        return {"tool": name, "input": rule["input"]}
                    if rule["sees"] in text and "WaitForMcpServers" in names:
                        return {"tool": "WaitForMcpServers", "input": {}}  # Claude Code is still starting the server
                    if rule["sees"] in text and not rule.get("waited"):
                        rule["waited"] = True  # so is Codex, which says nothing of it; the next request may have it
                        time.sleep(8)
            return {"say": f"reply {len(self.requests)}"}

    def _handler(self):
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                self._send({})

            def do_GET(self):
                self._send({"data": [], "models": []})

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                try:
                    asked = json.loads(body)
                except ValueError:
                    asked = {}
                if self.path.startswith("/v1/messages") and "count_tokens" not in self.path:
                    self._anthropic(asked)
                elif self.path.endswith("/responses"):
                    self._openai(asked)
                elif "enerateContent" in self.path:
                    self._google(asked)
                else:
                    self._send({"input_tokens": 10})

            def _send(self, answer):
                data = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            def _stream(self, events):
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                for name, data in events:
                    named = f"event: {name}\n" if name else ""
                    typed = {"type": name} if name else {}
                    self.wfile.write(f"{named}data: {json.dumps(typed | data)}\n\n".encode())
                self.close_connection = True

            def _anthropic(self, asked):
                answer = model._answer(asked.get("messages", []), asked.get("tools", []))
                number = len(model.requests)
                if "tool" in answer:
                    block = {"type": "tool_use", "id": f"toolu_{number:04}", "name": answer["tool"], "input": {}}
                    delta = {"type": "input_json_delta", "partial_json": json.dumps(answer["input"])}
                else:
                    block = {"type": "text", "text": ""}
                    delta = {"type": "text_delta", "text": answer["say"]}
                message = {
                    "id": f"msg_{number}",
                    "type": "message",
                    "role": "assistant",
                    "model": asked.get("model", "m"),
                    "content": [],
                    "stop_reason": None,
                    "stop_sequence": None,
                    "usage": {"input_tokens": 10, "output_tokens": 5},
                }
                reason = "tool_use" if "tool" in answer else "end_turn"
                if not asked.get("stream"):
                    whole = {"input": answer["input"]} if "tool" in answer else {"text": answer["say"]}
                    return self._send({**message, "content": [block | whole], "stop_reason": reason})
                ended = {"stop_reason": reason, "stop_sequence": None}
                return self._stream([
                    ("message_start", {"message": message}),
                    ("content_block_start", {"index": 0, "content_block": block}),
                    ("content_block_delta", {"index": 0, "delta": delta}),
                    ("content_block_stop", {"index": 0}),
                    ("message_delta", {"delta": ended, "usage": {"output_tokens": 5}}),
                    ("message_stop", {}),
                ])  # fmt: skip

            def _google(self, asked):
                offered = [tool for group in asked.get("tools", []) for tool in group.get("functionDeclarations", [])]
                answer = model._answer(asked.get("contents", []), offered)
                if "tool" in answer:
                    part = {"functionCall": {"name": answer["tool"], "args": answer["input"]}}
                else:
                    part = {"text": answer["say"]}
                content = {"role": "model", "parts": [part]}
                said = {
                    "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
                    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
                }
                return self._stream([(None, said)]) if "alt=sse" in self.path else self._send(said)

            def _openai(self, asked):
                answer = model._answer(asked.get("input", []), asked.get("tools", []))
                number = len(model.requests)
                if "tool" in answer:
                    group, _, name = answer["tool"].rpartition("/")
                    item = {
                        "type": "function_call",
                        "id": f"fc_{number}",
                        "call_id": f"call_{number}",
                        "name": name,
                        "arguments": json.dumps(answer["input"]),
                    } | ({"namespace": group} if group else {})
                else:
                    content = [{"type": "output_text", "text": answer["say"]}]
                    item = {"type": "message", "role": "assistant", "id": f"m_{number}", "content": content}
                usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
                whole = {"id": f"resp_{number}", "output": [item], "usage": usage}
                return self._stream([
                    ("response.created", {"response": {"id": f"resp_{number}"}}),
                    ("response.output_item.done", {"output_index": 0, "item": item}),
                    ("response.completed", {"response": whole}),
                ])  # fmt: skip

        return Handler

"""What the OpenAPI document says, held against the server by schemathesis: no 5xx, nothing that is not documented."""

import json
import os
import re
import subprocess
import sys

EXAMPLES = 400 if os.environ.get("AGENT_MAIL_LONG") else 12  # for each operation

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "response_headers_conformance,negative_data_rejection"
)


def fuzz(served, document, *more: str) -> subprocess.CompletedProcess:
    path = served.mail.place / "openapi.json"
    path.write_text(json.dumps(document))
    words = ["run", str(path), "--url", served.address, "--checks", CHECKS, "--max-examples", str(EXAMPLES)]
    words += ["--phases", "examples,coverage,fuzzing", "--seed", "1", "--exclude-path", "/events", "--no-color", *more]
    words += ["--suppress-health-check", "too_slow"]  # the machine may be busy
    program = [sys.executable, "-m", "schemathesis.cli"]
    return subprocess.run(
        [*program, *words], cwd=served.mail.place, capture_output=True, text=True, timeout=900, check=False
    )


def test_the_document_names_every_operation_and_status(shared):
    document = shared.ask("GET", "/openapi.json").json
    operations = {f"{method.upper()} {path}" for path, ways in document["paths"].items() for method in ways}
    assert operations == {
        "GET /messages/", "POST /messages/", "GET /messages/thread/{thread_id}", "POST /messages/{id}/reply",
        "PATCH /messages/{id}/read", "PATCH /messages/{id}/ack", "PATCH /messages/{id}/archive", "GET /agents/",
        "GET /conversations/", "POST /conversations/", "GET /conversations/{id}", "POST /conversations/{id}/resume",
        "POST /conversations/{id}/{action}", "GET /events", "GET /metrics",
    }  # fmt: skip
    for path, ways in document["paths"].items():
        for method, operation in ways.items():
            assert {"401", "403", "421", "422", "503"} <= operation["responses"].keys(), (method, path)


def with_real_ids(served, document) -> None:
    """Examples that exist, so that more is met than 404."""
    message = served.send("fuzzed")
    talk = served.ask("POST", "/conversations/", {"from_agent": "a", "to_agent": "b", "goal": "g"}).json
    real = {"id": message, "thread_id": message, "agent": "fuzzed", "to_agent": "fuzzed", "action": "needs-human"}
    for path, ways in document["paths"].items():
        for operation in ways.values():
            for parameter in operation.get("parameters", []):
                if parameter["name"] in real and not path.startswith("/conversations"):
                    parameter["example"] = real[parameter["name"]]
                elif parameter["name"] in ("id", "action"):
                    parameter["example"] = {"id": talk["conversation_id"], "action": "needs-human"}[parameter["name"]]


def test_nothing_the_document_allows_or_forbids_is_answered_in_another_way(shared):
    document = shared.ask("GET", "/openapi.json").json
    with_real_ids(shared, document)
    done = fuzz(shared, document)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    generated = re.search(r"(\d+) generated", done.stdout)
    assert generated, done.stdout[-2000:]
    assert int(generated[1]) > 200  # it did ask


def test_the_same_look_finds_a_document_that_is_wrong(shared):
    """The control: a status left out, and it is said."""
    document = shared.ask("GET", "/openapi.json").json
    for status in ("404", "422"):
        del document["paths"]["/messages/{id}/ack"]["patch"]["responses"][status]
    done = fuzz(shared, document, "--include-path", "/messages/{id}/ack")
    assert done.returncode == 1, done.stdout[-3000:]
    assert "Undocumented status code" in done.stdout

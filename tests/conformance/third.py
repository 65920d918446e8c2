#!/usr/bin/env python3
"""A third implementation for the tests of the suite itself: the command behind the suite's contract, in few lines.

Also the shortest example of an adapter.  FAULT makes it wrong in one way, as a careless implementation would be.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

VERBS = ["send", "read", "claim", "renew", "release", "ack", "archive", "requeue"]
SPOOL, FAULT = Path(os.environ.get("AGENT_MAIL_SPOOL", "/nowhere")), os.environ.get("FAULT", "")


def run(*words: str, body: str = "") -> dict:
    done = subprocess.run([os.environ["AGENT_MAIL"], *words], input=body.encode(), capture_output=True, check=False)
    if done.returncode:
        sys.stderr.buffer.write(done.stderr)
        sys.exit(done.returncode)
    return json.loads(done.stdout)


def send(request: dict) -> dict:
    words = ["send", "--from", request["sender"], "--to", request["recipient"], "--subject", request["subject"]]
    for name in ("reply_to", "dedup_key"):
        if name in request and not (FAULT == "forgets keys" and name == "dedup_key"):
            words += [f"--{name.replace('_', '-')}", request[name]]
    body = request.get("body", "")
    return run(*words, "--body-file", "-", body=body.rstrip("\n") if FAULT == "strips newlines" else body)


def read(request: dict) -> dict:
    answer = run("read", request["agent"], "--limit", "1000")
    if FAULT == "gives no reason":
        for reason in SPOOL.glob("agents/*/failed/*.reason.json"):
            reason.write_text(json.dumps({**json.loads(reason.read_text()), "code": "bad"}))
    return answer


def release(request: dict) -> dict:
    answer = run("release", request["agent"], request["handle"])
    if FAULT == "starts tokens again":
        rename(request["handle"][:36], "new", request["handle"][36:], "")
    return answer


def ack(request: dict) -> dict:
    answer = run("ack", request["agent"], *request["ids"])
    for message_id in answer["message_ids"] if FAULT == "drops unknown stamps" else []:
        rename(message_id, "acked", "~cv2", "")
    return {"ids": answer["message_ids"]}


def claim(request: dict) -> dict:
    answer = run("claim", request["agent"], request["id"])
    if FAULT == "names no boot":
        [path] = SPOOL.glob(f"agents/*/claimed/{request['id']}*")
        path.rename(path.with_name("~".join(part for part in path.name.split("~") if part[0] != "b")))
    return answer


def rename(message_id: str, state: str, old: str, new: str) -> None:
    for path in SPOOL.glob(f"agents/*/{state}/**/{message_id}*"):
        path.rename(path.with_name(path.name.replace(old, new)))


def main(verb: str) -> dict:
    if verb == "verbs":
        return {"verbs": VERBS}
    request = json.load(sys.stdin)
    if verb == "archive":
        return {"ids": run("archive", request["agent"], *request["ids"])["message_ids"]}
    if verb == "requeue":
        return run("failed", "requeue", request["agent"], request["id"])
    if verb == "renew":
        return run("renew", request["agent"], request["handle"])
    return {"send": send, "read": read, "claim": claim, "release": release, "ack": ack}[verb](request)


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))

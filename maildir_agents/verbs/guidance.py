"""What `next` says: the commands still outstanding, in the order read, ack, watch, shrinking to none.

Pure.  Only this package's own commands with a checked agent name ever stand in it, never text from a message.
"""


def outstanding(agent: str, *, unread: bool, owed: bool, reachable: bool) -> list[str]:
    """Runnable commands for what was just seen: mail left to read, mail to settle, nobody listening."""
    steps = []
    if unread:
        steps.append(f"agent-mail read {agent}")
    if owed:
        steps.append(f"agent-mail ack {agent} --all")
    if not reachable:
        steps.append(f"agent-mail watch {agent}")
    return steps

"""Looking and keeping in order: how mailboxes stand, what became of a message, dead letters, cleanup, doctor."""

from maildir_agents.faces.python.opened import Opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Upkeep(Opened):
    """Looking, and what a person does now and then."""

    def status(self, agent: str | None = None, *, project: str | None = None) -> "list[dict[str, Any]]":
        """One dict an agent, keys as in `maildir_agents.verbs.status.FIELDS`."""
        from maildir_agents.verbs.status import status

        return status(self, agent, project=project)

    def thread(self, message_id: str) -> "dict[str, Any]":
        """The whole thread that a message is in, oldest first: `{thread_id, count, messages}`."""
        from maildir_agents.verbs.thread import thread

        return thread(self, message_id)

    def trace(self, message_id: str) -> "dict[str, Any]":
        """One message's life: `{id, sender, recipient, subject, places, events}`."""
        from maildir_agents.verbs.trace import trace

        return trace(self, message_id)

    def list_agents(self) -> "dict[str, Any]":
        """The mailboxes and the conventions for names: `{spool, agents, conventions}`."""
        from maildir_agents.verbs.agents import agents

        return agents(self)

    def init(self) -> "dict[str, Any]":
        """Make the spool, complete what is missing: `{spool, created, durability, file_system}`."""
        from maildir_agents.verbs.init import init

        return init(self)

    def cleanup(self, older_than_days: float | None, *, dry_run: bool = False) -> "dict[str, Any]":
        """Delete threads acknowledged more than `older_than_days` ago; None: as config.json says (retention_days).

        Answers `{older_than_days, dry_run, threads, messages, broadcasts, conversations}`; `dry_run` only counts.
        """
        from maildir_agents.verbs.cleanup import cleanup

        return cleanup(self, older_than_days, dry_run=dry_run)

    def doctor(self, *, fix: bool = False) -> "dict[str, Any]":
        """Examine the whole spool, and with `fix` mend it: `{spool, clean, file_system, findings, notes}`."""
        from maildir_agents.verbs.doctor import doctor

        return doctor(self, fix=fix)

    def failed_list(self, agent: str | None = None) -> "dict[str, Any]":
        """Dead letters of one agent or all: `{count, failed}`, each with id, file, code, reason, at and subject."""
        from maildir_agents.verbs.failed import listed

        return listed(self, agent)

    def failed_show(self, agent: str, message_id: str) -> "dict[str, Any]":
        """One dead letter: its reason, and the message where it is one, else its raw text."""
        from maildir_agents.verbs.failed import show

        return show(self, agent, message_id)

    def failed_requeue(self, agent: str, message_id: str) -> "dict[str, Any]":
        """Put a dead letter back into new/: a person says that it can be worked on now."""
        from maildir_agents.verbs.failed import requeue

        return requeue(self, agent, message_id)

    def failed_purge(self, agent: str, message_id: str) -> "dict[str, Any]":
        """Delete a dead letter for good, with its index names."""
        from maildir_agents.verbs.failed import purge

        return purge(self, agent, message_id)

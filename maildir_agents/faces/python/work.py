"""Work in process: claims for many workers, and bounded conversations."""

from maildir_agents.faces.python.opened import Opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.verbs.worker import Worker


class Work(Opened):
    """Holding messages while working on them, and dialogues that end."""

    def claim(
        self, agent: str, wanted: str | None = None, *, lease_s: int = 300, worker: str | None = None
    ) -> "dict[str, Any]":
        """Claim the oldest free message, or the one with the id `wanted`; with a handle: renew that claim.

        Answers `{agent, message, handle, token, claim_expires_at, worker, next, warnings}`, None where nothing is free.
        `lease_s` is clamped to 30..3600.  Raises claimed, settled, dead_letter, unknown_id, lease_lost.
        """
        from maildir_agents.verbs.claim import claim

        meant = self._meant(wanted) if wanted is not None else None
        return claim(self, agent, meant, lease_s=lease_s, worker=worker, mine=self.mine)

    def worker(self, agent: str, *, name: str | None = None, lease_s: int = 300) -> "Worker":
        """A long-lived claimer for `agent`: `worker.claim()` answers claim after claim, `worker.ack(claim)` settles."""
        from maildir_agents.verbs.worker import Worker

        return Worker(self, agent, name=name, lease_s=lease_s)

    def renew(self, agent: str, held: str, *, lease_s: int = 300) -> "dict[str, Any]":
        """Hold a claim `lease_s` seconds from now: `{agent, id, handle, token, claim_expires_at}`."""
        from maildir_agents.verbs.claim import renew

        return renew(self, agent, self._meant(held), lease_s=lease_s)

    def release(self, agent: str, held: str) -> "dict[str, Any]":
        """Give a claim back: `{agent, id, handle, token, state}`; raises lease_lost."""
        from maildir_agents.verbs.claim import release

        return release(self, agent, self._meant(held))

    def start_conversation(
        self,
        *,
        sender: str,
        recipient: str,
        goal: str,
        subject: str | None = None,
        body: str | None = None,
        max_turns: int = 8,
        expires_s: int = 3600,
        dedup_key: str | None = None,
        hops: int = 0,
    ) -> "dict[str, Any]":
        """Start a bounded dialogue and post its root task as turn 1; turns clamped to 2..20, seconds to 60..86400.

        Answers `{conversation_id, message_id, state, duplicate, max_turns, expires_at, turn_count}`.  The turns are
        `send` with kind "task" or "result" in reply to the message in flight.
        """
        from maildir_agents.verbs.conversation import start

        return start(
            self,
            sender=sender,
            recipient=recipient,
            goal=goal,
            subject=subject,
            body=body,
            max_turns=max_turns,
            expires_s=expires_s,
            dedup_key=dedup_key,
            hops=hops,
        )

    def conversation(self, conversation_id: str, agent: str | None = None) -> "dict[str, Any]":
        """How a conversation stands, never its goal or a text; `agent` asks as a member."""
        from maildir_agents.verbs.conversation import status

        return status(self, conversation_id, agent)

    def end_conversation(self, conversation_id: str, action: str, agent: str) -> "dict[str, Any]":
        """`action` complete, cancel or needs_human by a member: the status afterwards, and `changed`."""
        from maildir_agents.verbs.conversation import control

        return control(self, conversation_id, action, agent)

    def resume_conversation(
        self, conversation_id: str, by: str, *, add_turns: int = 0, extend_s: int = 0
    ) -> "dict[str, Any]":
        """A person puts a conversation back to work; never beyond 20 turns in all."""
        from maildir_agents.verbs.conversation import resume

        return resume(self, conversation_id, by, add_turns=add_turns, extend_s=extend_s)

    def list_conversations(self, agent: str | None = None) -> "dict[str, Any]":
        """`{count, conversations, warnings}`: how each stands, of one agent or all."""
        from maildir_agents.verbs.conversation import listed

        return listed(self, agent)

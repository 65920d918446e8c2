"""The loop in process: send, read, watch, acknowledge."""

from maildir_agents.faces.python.opened import Opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from maildir_agents.verbs.read import Reading


class Mail(Opened):
    """Sending and receiving."""

    def send(
        self,
        *,
        sender: str,
        recipient: str,
        subject: str,
        body: str = "",
        refs: "Sequence[str]" = (),
        reply_to: str | None = None,
        acknowledge: bool = True,
        dedup_key: str | None = None,
        kind: str | None = None,
        conversation: str | None = None,
        response_timeout_s: int | None = None,
        headers: "dict[str, Any] | None" = None,
    ) -> "dict[str, Any]":
        """Send a message, durable before this returns.

        `recipient` is an agent or "*" for everybody but the sender; `reply_to` an id or a claim's handle, which a
        reply acknowledges unless `acknowledge` is False; `response_timeout_s` is clamped to 1..3600.
        Answers `{id, sender, recipient, subject, kind, created, duplicate, delivery: {known}}`, and `acknowledged`.
        Raises MailError: bad_agent, bad_subject, bad_body, bad_refs, bad_key, too_large, unknown_id, claimed,
        lease_lost, mailbox_full, spool_full, cannot_write: nothing was sent; durability_unknown: sent, do not repeat.
        """
        from maildir_agents.verbs.send import send

        return send(
            self,
            sender=sender,
            recipient=recipient,
            subject=subject,
            body=body,
            refs=refs,
            reply_to=reply_to and self._meant(reply_to),
            acknowledge=acknowledge,
            dedup_key=dedup_key,
            kind=kind,
            conversation=conversation,
            response_timeout_s=response_timeout_s,
            headers=headers,
        )

    def send_many(self, orders: "Iterable[dict[str, Any]]", sender: str | None = None) -> "dict[str, Any]":
        """Send many messages as one durable batch, all or none but for crashes: `{count, ids}` in the order given.

        Each order is a dict with what `send` takes: sender (or once for all), recipient, subject, body, refs, reply_to,
        dedup_key, headers, response_timeout_s.
        """
        from maildir_agents.verbs.batch import send_many

        return send_many(self, orders, sender)

    def prospects(self, recipient: str, sender: str | None = None) -> "dict[str, Any]":
        """Whether anybody is there to get mail: `{known, watch_state, waiting, oldest_age, did_you_mean}`.

        To be asked before sending.
        `waiting` counts unread mail ("2000+" beyond that), `oldest_age` is seconds or None.
        """
        from maildir_agents.mail.presence import prospects

        return prospects(self, recipient, sender)

    def standing(self, agent: str) -> "dict[str, Any]":
        """`{reachable: False, next}` when the agent has watched before and does not now; else nothing."""
        from maildir_agents.verbs.send import standing

        return standing(self, agent)

    def read(
        self,
        agent: str,
        *,
        everything: bool = False,
        unacked: bool = False,
        sender: str | None = None,
        thread: str | None = None,
        limit: int = 20,
        fields: "Sequence[str] | None" = None,
        mark: bool = True,
        ack: bool = False,
        max_bytes: int | None = None,
    ) -> "Reading":
        """Read in two phases: `with spool.read(agent) as batch: …` marks what it showed on a clean exit only.

        `batch.messages` are dicts with the fields of `maildir_agents.mail.message.PUBLIC`, oldest first; `batch.answer`
        is what the command prints; `batch.warnings` names files passed over; after the block `batch.trouble` is the
        MailError that kept messages from being marked, or None.  `mark=False` changes nothing.  `everything` shows the
        newest `limit` of all that is kept, `unacked` what is not acknowledged yet, read or not.  `max_bytes` bounds
        the bodies of the batch, never below one message.
        """
        from maildir_agents.mail.message import PUBLIC
        from maildir_agents.verbs.read import Reading

        return Reading(
            self,
            agent,
            everything=everything,
            unacked=unacked,
            sender=sender,
            thread=thread,
            limit=limit,
            fields=tuple(fields) if fields is not None else PUBLIC,
            mark=mark,
            ack=ack,
            max_bytes=max_bytes,
            mine=self.mine,
        )

    def watch(
        self,
        agent: str,
        *,
        timeout_s: float = 3300.0,
        once: bool = False,
        hangup: int | None = None,
        warn: "Callable[[dict[str, str]], None] | None" = None,
    ) -> "dict[str, Any] | None":
        """Wait until there is unread mail, at most `timeout_s` seconds.

        Answers `{agent, messages, count, timeout, reachable, next}`: envelopes of the 20 oldest, `count` of all; marks
        nothing; a timeout is an empty answer.  `hangup` is a descriptor whose reader may go away (then None).
        """
        from maildir_agents.verbs.watch import watch

        return watch(self, agent, timeout_s=timeout_s, once=once, hangup=hangup, warn=warn, mine=self.mine)

    def follow(self, agent: str, *, timeout_s: float | None = None) -> "Iterator[dict[str, Any]]":
        """Every unread envelope once, as it comes; the agent is reachable while this is iterated.

        A file passed over comes as `{warning, code, path}`.
        """
        from maildir_agents.verbs.watch import follow

        return follow(self, agent, timeout_s=timeout_s, mine=self.mine)

    def ack(self, agent: str, ids: "Sequence[str]" = (), *, everything: bool = False) -> "dict[str, Any]":
        """Acknowledge messages by id (or claims by handle), or `everything` outstanding but others' live claims.

        Answers `{agent, acked_at, count, message_ids, reachable, next}`.  Raises unknown_id, not_yours, claimed,
        lease_lost, dead_letter: then nothing was acknowledged.
        """
        from maildir_agents.verbs.ack import ack

        return ack(self, agent, [self._meant(text) for text in ids], everything=everything, mine=self.mine)

    def archive(self, agent: str, ids: "Sequence[str]") -> "dict[str, Any]":
        """Put messages away, acknowledged or not: `{agent, archived_at, count, message_ids, reachable, next}`."""
        from maildir_agents.verbs.ack import archive

        return archive(self, agent, [self._meant(text) for text in ids], mine=self.mine)

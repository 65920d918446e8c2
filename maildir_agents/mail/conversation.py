"""The rules of a conversation: one table, and what makes an entry lawful.

Pure.  A conversation is the fold of its journal: the opening turn, then turns and control entries by number.  What is
in the journal is history and is not judged again; what wants to join it is judged here, before its link decides.
"""

from maildir_agents.errors import MailError
from maildir_agents.mail.name import is_iso, iso, ms_of_iso

TYPE_CHECKING = False
if TYPE_CHECKING:
    from maildir_agents.mail.message import Json

ACTIVE, COMPLETED, CANCELLED, NEEDS_HUMAN, BLOCKED = "active", "completed", "cancelled", "needs_human", "blocked"
ENDED = frozenset((COMPLETED, CANCELLED))
TURNS = ("task", "result")
CONTROLS = ("complete", "cancel", "needs_human", "blocked", "resume")

#: (state, event) -> the state after it.  `spool/conversation.tsv` is the same table.  What is not here is refused;
#: a control that leads where the conversation is already changes nothing and is not written.
TABLE: dict[tuple[str, str], str] = {
    (ACTIVE, "task"): ACTIVE,
    (ACTIVE, "result"): ACTIVE,
    (ACTIVE, "complete"): COMPLETED,
    (ACTIVE, "cancel"): CANCELLED,
    (ACTIVE, "needs_human"): NEEDS_HUMAN,
    (ACTIVE, "blocked"): BLOCKED,
    (NEEDS_HUMAN, "cancel"): CANCELLED,
    (NEEDS_HUMAN, "resume"): ACTIVE,
    (BLOCKED, "cancel"): CANCELLED,
    (BLOCKED, "resume"): ACTIVE,
}
_LEADS_TO = {
    "complete": COMPLETED,
    "cancel": CANCELLED,
    "needs_human": NEEDS_HUMAN,
    "blocked": BLOCKED,
    "resume": ACTIVE,
}

FEWEST_TURNS, USUAL_TURNS, MOST_TURNS = 2, 8, 20
SHORTEST_S, USUAL_S, LONGEST_S = 60, 3600, 86_400
MOST_HOPS = 8


class Conversation:
    """What a journal says: who, how far, under which terms, and what is in flight."""

    __slots__ = (
        "entries",
        "expires_ms",
        "goal",
        "hops",
        "id",
        "last_entry",
        "last_turn",
        "max_turns",
        "members",
        "resumed",
        "state",
        "transitions",
        "turns",
    )

    def __init__(self, opening: "Json") -> None:
        terms = opening["headers"]["conversation"]
        self.id: str = opening["conversation_id"]
        self.goal: str = terms["goal"]
        self.members: tuple[str, str] = (opening["sender"], opening["recipient"])  # the initiator first
        self.max_turns: int = terms["max_turns"]
        self.expires_ms: int = ms_of_iso(terms["expires_at"])
        self.hops: int = opening["hops"] or 0
        self.state = ACTIVE
        self.turns: list[Json] = [opening]
        self.last_turn: Json = opening
        self.last_entry: Json = opening
        self.entries = 1  # the number of the next one
        self.resumed = 0  # how often a person has answered "needs a human", since its last turn
        self.transitions: list[Json] = [{"state": ACTIVE, "at": opening["created"], "by": opening["sender"]}]

    @property
    def in_flight(self) -> str | None:
        """The id of the message that must be answered next; None when the conversation has ended."""
        return self.last_turn["id"] if self.state not in ENDED else None

    def append(self, entry: "Json") -> None:
        """Take the next entry of the journal as it is: history is not judged."""
        self.entries += 1
        self.last_entry = entry
        control = entry.get("control")
        if control is None:
            self.turns.append(entry)
            self.last_turn = entry
            self.resumed = 0
            return
        before, self.state = self.state, _LEADS_TO[control]
        self.transitions.append({"state": self.state, "at": entry["created"], "by": entry["by"]})
        if control == "resume":
            self.resumed += before == NEEDS_HUMAN  # a dead letter is put back by itself, and counts anew by that
            self.max_turns = entry["max_turns"]
            self.expires_ms = ms_of_iso(entry["expires_at"])

    def status(self, now_ms: int) -> "Json":
        """What anybody of its members may see: never the goal, never a text."""
        over = self.state == ACTIVE and now_ms > self.expires_ms
        return {
            "conversation_id": self.id,
            "state": "expired" if over else self.state,
            "members": list(self.members),
            "turn_count": len(self.turns),
            "max_turns": self.max_turns,
            "expires_at": iso(self.expires_ms),
            "transitions": list(self.transitions),
            "in_flight": self.in_flight,
        }


def same_turn(conversation: Conversation, message: "Json") -> "Json | None":
    """The turn in the journal that this message already is: its key, or the same answer by the same sender."""
    for turn in conversation.turns[1:]:
        keyed = message["dedup_key"] is not None and turn["dedup_key"] == message["dedup_key"]
        answers = turn["reply_to"] == message["reply_to"] and turn["body"] == message["body"]
        if turn["sender"] == message["sender"] and (keyed or answers):
            return turn
    return None


def judge_member(conversation: Conversation, agent: str) -> None:
    """Members only; a stranger learns nothing, not even that there is one."""
    if agent not in conversation.members:
        raise no_conversation(conversation.id)


def no_conversation(conversation_id: str) -> MailError:
    return MailError("unknown_conversation", f"there is no conversation {conversation_id}")


def judge_turn(conversation: Conversation, message: "Json", now_ms: int) -> None:
    """Raise unless the message may be the next turn.

    `turn_limit` and `expired` mean that the conversation now needs a human; the others change nothing.  The detail
    `answered_by` of `not_in_flight` names the turn by which its sender has answered that message already.
    """
    judge_member(conversation, message["sender"])
    last = conversation.last_turn
    if message["reply_to"] != last["id"] or message["sender"] != last["recipient"]:
        raise _refused(
            "not_in_flight",
            conversation,
            f"its message in flight is {last['id']}, to {last['recipient']}",
            **_answered(conversation, message),
        )
    if message["recipient"] != last["sender"]:
        raise _refused(
            "not_in_flight", conversation, f"a turn goes back to {last['sender']}, not to {message['recipient']}"
        )
    if (conversation.state, str(message["kind"])) not in TABLE:
        raise _refused("not_active", conversation, f"it is {conversation.state}")
    if now_ms > conversation.expires_ms:
        raise _refused("expired", conversation, f"its time was over at {iso(conversation.expires_ms)}")
    if len(conversation.turns) >= conversation.max_turns:
        raise _refused("turn_limit", conversation, f"all its {conversation.max_turns} turns are used")


def _answered(conversation: Conversation, message: "Json") -> "Json":
    said = [(turn["sender"], turn["reply_to"], turn["id"]) for turn in conversation.turns[1:]]
    found = [by for sender, to, by in said if (sender, to) == (message["sender"], message["reply_to"])]
    return {"answered_by": found[0]} if found else {}


def used_up(conversation: Conversation, now_ms: int) -> bool:
    """Whether it is at work without room for another turn: the next writer says that it needs a human."""
    over = now_ms > conversation.expires_ms or len(conversation.turns) >= conversation.max_turns
    return conversation.state == ACTIVE and over


def judge_control(conversation: Conversation, control: str) -> bool:
    """Whether a control entry has to be written; False: that is its state already.  Raises `not_active`."""
    if conversation.state == _LEADS_TO[control]:
        return False
    if (conversation.state, control) not in TABLE:
        raise _refused("not_active", conversation, f"it is {conversation.state}, {control} is not possible")
    return True


def resumed(conversation: Conversation, add_turns: int, extend_s: int, now_ms: int) -> tuple[int, str]:
    """The new turn limit and expiry of a resume: never beyond 20 turns in all, and with room for one more."""
    limit = min(conversation.max_turns + add_turns, MOST_TURNS)
    expires = max(conversation.expires_ms, now_ms if extend_s else 0) + 1000 * min(extend_s, LONGEST_S)
    if len(conversation.turns) >= limit:
        raise _refused(
            "turn_limit", conversation, f"{len(conversation.turns)} of {limit} turns are used: resume must add some"
        )
    if expires <= now_ms:
        raise _refused("expired", conversation, "its time is over: resume must extend it")
    return limit, iso(expires)


def _refused(code: str, conversation: Conversation, why: str, **detail: object) -> MailError:
    look = f"agent-mail conversation status {conversation.id} --as AGENT"
    return MailError(code, f"conversation {conversation.id}: {why}", look, **detail)


def terms(goal: str, members: list[str], max_turns: int, expires_s: int, now_ms: int) -> "Json":
    """What the opening turn carries in its headers; turns clamped to 2..20, time to 60..86400 seconds."""
    return {
        "goal": goal,
        "members": members,
        "max_turns": min(max(max_turns, FEWEST_TURNS), MOST_TURNS),
        "expires_at": iso(now_ms + 1000 * min(max(expires_s, SHORTEST_S), LONGEST_S)),
    }


def well_formed(opening: "Json") -> bool:
    """Whether a message can open a conversation: turn 1 of a task, with its terms."""
    found = opening["headers"].get("conversation")
    return (
        opening["turn"] == 1
        and opening["kind"] == "task"
        and opening["conversation_id"] is not None
        and isinstance(found, dict)
        and type(found.get("goal")) is str
        and type(found.get("max_turns")) is int
        and type(found.get("expires_at")) is str
        and is_iso(found["expires_at"])
    )


def well_formed_control(entry: "Json") -> bool:
    """Whether an entry is a control with all that its event needs."""
    times = [entry.get("created"), *([entry.get("expires_at")] if entry.get("control") == "resume" else [])]
    return (
        entry.get("control") in CONTROLS
        and type(entry.get("by")) is str
        and all(type(time) is str and is_iso(time) for time in times)
        and (entry["control"] != "resume" or type(entry.get("max_turns")) is int)
    )

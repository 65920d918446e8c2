"""The feed's book-keeping, without a server: who missed what, and who is told to look at everything."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from faces.program import until
from maildir_agents import Spool
from maildir_agents.errors import MailError
from maildir_agents.faces.http import feed as module
from maildir_agents.faces.http.feed import KEPT, MOST, Ear, Feed


def said(feed: Feed, last: str | None) -> str:
    stream = feed.open(last, lambda _: True)
    feed.streams.discard(stream)
    return asyncio.run(stream._next()) if stream.wake.is_set() else ""


def test_who_comes_back_is_told_each_event_since_and_no_other():
    feed = Feed()
    feed.publish([("message", {"n": n}) for n in range(5)])
    here = feed.resync().split()[1]
    assert said(feed, here) == said(feed, None) == ""
    feed.publish([("message", {"n": n}) for n in (5, 6)])
    told = said(feed, here)
    assert ('"n": 5' in told, '"n": 6' in told, '"n": 4' in told, "resync" in told) == (True, True, False, False)


def test_who_missed_more_than_is_kept_is_told_to_resync():
    for missed, resync in ((KEPT, False), (KEPT + 1, True)):
        feed = Feed()
        feed.publish([("message", {})])
        here = feed.resync().split()[1]
        feed.publish([("message", {}) for _ in range(missed)])
        assert ("event: resync" in said(feed, here)) == resync


def test_after_the_feed_lost_track_nobody_is_taken_for_up_to_date():
    feed = Feed()
    feed.publish([("message", {})])
    here = feed.resync().split()[1]
    stream = feed.open(None, lambda _: True)
    feed.lose()
    assert "event: resync" in asyncio.run(stream._next())
    assert "event: resync" in said(feed, here)


def test_a_stream_that_does_not_keep_up_loses_its_queue_and_is_told():
    feed = Feed()
    stream = feed.open(None, lambda _: True)
    feed.publish([("message", {"n": n}) for n in range(KEPT + 1)])
    told = asyncio.run(stream._next())
    assert "event: resync" in told
    assert told.count("event: message") == 0


def test_one_stream_too_many_is_refused_until_another_ends():
    feed = Feed()
    streams = [feed.open(None, lambda _: True) for _ in range(MOST)]
    with pytest.raises(MailError, match="listening") as refused:
        feed.open(None, lambda _: True)
    assert refused.value.code == "busy"
    feed.streams.discard(streams[0])
    assert feed.open(None, lambda _: True) in feed.streams


# ------------------------------------------------------------------------------------------------ the ear


@pytest.fixture
def spool(tmp_path):
    opened = Spool(tmp_path / "spool", durability="none")
    opened.send(sender="hub", recipient="docs", subject="before")
    return opened


def test_what_nobody_heard_while_it_began_anew_is_said_to_be_lost_once_more(spool):
    """Who looked at everything when the first loss was told has not seen what came until the next look."""
    told, failing = [], [OSError("no such spool just now")]

    def opening():
        if failing:
            raise failing.pop()
        spool.send(sender="hub", recipient="docs", subject="meanwhile")
        return spool

    ear = Ear(opening, lambda events: told.append("events"), lambda: told.append("lost"))
    ear.start()
    try:
        until(lambda: len(told) == 3, "it has begun anew")
        assert told == ["lost", "events", "lost"]
    finally:
        ear.stop()


def test_told_to_stop_it_does_not_rest_to_the_end_from_a_long_look(spool, monkeypatch):
    hours = iter(range(0, 1 << 20, 3600))
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(hours), sleep=time.sleep))
    told = []
    ear = Ear(lambda: spool, told.append, lambda: None)
    ear.start()
    try:
        until(lambda: told, "it listens")
        spool.send(sender="hub", recipient="docs", subject="now")
        until(lambda: len(told) == 2, "it has looked for an hour, and rests for four")
    finally:
        ear.stop()

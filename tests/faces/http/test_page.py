"""The inbox page in a real browser, as a person meets it: with a mouse, with keys only, in the dark, without a script.

The browser is the system's Chromium, driven by playwright.  Nothing the page loads may come from another machine, and
nothing may complain in the console: that is looked at after each test.
"""

import re
from pathlib import Path

import pytest

from faces.http.served import Served
from faces.program import until

pytestmark = pytest.mark.needs("chromium", "the inbox page in a real browser")

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip
SOON_MS = 60_000


@pytest.fixture(scope="module")
def browser(needs):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        program = needs("chromium", "the inbox page")
        browser = driver.chromium.launch(executable_path=program, headless=True, args=FLAGS, timeout=2 * SOON_MS)
        yield browser
        browser.close()


class Reader:
    """A person at the page: `page` is playwright's; what the browser complained of is in `complaints`."""

    def __init__(self, browser, served: Served, **how) -> None:
        self.served = served
        self.complaints: list[str] = []
        self.context = browser.new_context(**how)
        self.context.set_default_timeout(SOON_MS)
        self.page = self.context.new_page()
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._look)

    def _look(self, request) -> None:
        if not request.url.startswith((self.served.address, "data:")):
            self.complaints.append(f"asked another machine: {request.url}")

    def open(self, path: str = "/") -> "Reader":
        self.page.goto(self.served.address + path)
        if self.page.evaluate("!!document.querySelector('script')"):
            self.live()
        return self

    def live(self) -> None:
        self.page.wait_for_selector("#wire[data-state=on]", timeout=SOON_MS)

    def row(self, subject: str):
        return self.page.locator("tbody", has=self.page.get_by_role("link", name=subject, exact=True))

    def subjects(self) -> list[str]:
        return self.page.locator("a.open").all_inner_texts()


@pytest.fixture
def reader(browser):
    readers = []

    def sit_down(served: Served, **how) -> Reader:
        readers.append(Reader(browser, served, **how))
        return readers[-1]

    yield sit_down
    complaints = [complaint for one in readers for complaint in one.complaints]
    for one in readers:
        one.context.close()
    assert complaints == []


def names(served: Served, agent: str, state: str) -> list[str]:
    return [p.name[:36] for p in (served.mail.spool / "agents" / agent / state).iterdir()]


def test_mail_sent_by_the_command_appears_without_a_reload(shared, reader):
    one = reader(shared).open("/?to=live")
    one.page.evaluate("window.same = true")
    shared.mail("send", "--from", "hub", "--to", "live", "--subject", "Here I am")
    one.row("Here I am").wait_for()
    assert one.page.evaluate("window.same")
    assert re.match(r"\(\d+\) Inbox", one.page.title())
    one.page.get_by_role("link", name="live 1 unread").wait_for()
    shared.mail("read", "live")
    one.row("Here I am").wait_for(state="detached")
    one.page.get_by_text("Nothing is waiting.").wait_for()


def test_mark_read_moves_the_file(shared, reader):
    first, second = shared.send("marked", "One"), shared.send("marked", "Two")
    one = reader(shared).open("/?to=marked")
    one.page.get_by_role("button", name="Mark read One").click()
    one.row("One").wait_for(state="detached")
    assert names(shared, "marked", "cur") == [first]
    assert names(shared, "marked", "new") == [second]
    assert one.page.evaluate("document.activeElement.textContent").strip() == "Two"  # the next one


def test_a_thread_opens_inline_and_stays_through_news_and_typing(shared, reader):
    root = shared.send("threads", "Question", body="What is the answer?")
    shared.ask("POST", f"/messages/{root}/reply", {"body": "42", "acknowledge": False})
    one = reader(shared).open("/?to=threads")
    assert "2 messages in this thread" in " ".join(one.row("Question").inner_text().split())
    one.page.get_by_role("link", name="Question", exact=True).click()
    thread = one.row("Question").locator(".thread")
    thread.get_by_text("What is the answer?").wait_for()
    thread.get_by_text("42").wait_for()
    thread.get_by_label("Reply to hub").fill("half a thou")
    shared.send("threads", "Something else")
    one.row("Something else").wait_for()
    assert thread.get_by_label("Reply to hub").input_value() == "half a thou"
    assert one.page.evaluate("document.activeElement.tagName") == "TEXTAREA"
    one.page.get_by_role("link", name="Question", exact=True).click()
    thread.wait_for(state="detached")


def test_reply_answers_and_acknowledges_and_compose_sends(shared, reader):
    root = shared.send("writers", "Please answer")
    one = reader(shared).open("/?to=writers")
    one.page.get_by_role("link", name="Please answer", exact=True).click()
    one.page.get_by_label("Reply to hub").fill("Here is the answer.\nSecond line.")
    one.page.get_by_role("button", name="Send reply").click()
    one.row("Please answer").wait_for(state="detached")
    replies = shared.ask("GET", f"/messages/thread/{root}").json["messages"]
    assert [(m["from_agent"], m["body"], m["state"]) for m in replies] == [
        ("hub", "", "acked"),
        ("writers", "Here is the answer.\nSecond line.", "unread"),
    ]
    one.page.get_by_text("Write a message").click()
    one.page.get_by_label("From", exact=True).fill("me")
    one.page.get_by_label("To", exact=True).fill("Writers")  # no such name can be
    one.page.get_by_label("Subject", exact=True).fill("Composed")
    one.page.get_by_label("Text", exact=True).fill("A text")
    one.page.get_by_role("button", name="Send", exact=True).click()
    one.page.get_by_text("To is not right.").wait_for()
    assert one.page.get_by_label("Text", exact=True).input_value() == "A text"
    one.complaints.clear()  # the browser reports the 422, as it should
    one.page.get_by_label("To", exact=True).fill("writers")
    one.page.get_by_role("button", name="Send", exact=True).click()
    one.row("Composed").wait_for()
    one.page.get_by_text("Sent. writers is not watching right now.").wait_for()


def test_what_a_message_says_is_text(shared, reader):
    evil = "<script>document.title='pwned'</script><img src=x onerror=alert(1)>"
    override = "safe \N{RIGHT-TO-LEFT OVERRIDE}gpj.exe"
    root = shared.send("escaped", evil, body=f"{evil}\n{override}", refs=[evil])
    shared.send("escaped", override)
    shared.send("escaped", "{{ 7 * 7 }} &amp; \"quoted\" 'text'")
    one = reader(shared).open("/?to=escaped")
    assert one.subjects() == [evil, "safe \N{REPLACEMENT CHARACTER}gpj.exe", "{{ 7 * 7 }} &amp; \"quoted\" 'text'"]
    one.page.locator("a.open").first.click()
    text = one.page.locator(".thread pre").inner_text()
    assert text == f"{evil}\nsafe \N{REPLACEMENT CHARACTER}gpj.exe"
    assert one.page.locator("main img, main script, .thread img").count() == 0
    assert "Inbox" in one.page.title()
    assert (
        shared.ask("GET", f"/messages/thread/{root}").json["messages"][0]["body"].endswith(override)
    )  # as it was sent


def test_everything_can_be_done_with_keys_alone(shared, reader):
    shared.send("keys", "First")
    shared.send("keys", "Second")
    one = reader(shared).open("/?to=keys")
    keys = one.page.keyboard
    keys.press("Tab")
    assert one.page.evaluate("document.activeElement.textContent") == "Skip to the messages"
    keys.press("Enter")
    for _ in range(8):
        keys.press("Tab")
        if one.page.evaluate("document.activeElement.className") == "open":
            break
    assert one.page.evaluate("document.activeElement.textContent") == "First"
    keys.press("j")
    assert one.page.evaluate("document.activeElement.textContent") == "Second"
    keys.press("k")
    keys.press("Enter")
    one.row("First").locator(".thread").wait_for()
    for _ in range(4):
        keys.press("Tab")
        if one.page.evaluate("document.activeElement.tagName") == "TEXTAREA":
            break
    keys.type("by keys, jke")
    keys.press("Escape")
    one.row("First").locator(".thread").wait_for(state="detached")
    assert one.page.evaluate("document.activeElement.textContent") == "First"
    keys.press("e")
    one.row("First").wait_for(state="detached")
    until(lambda: one.page.evaluate("document.activeElement.textContent").strip() == "Second", "the next has the focus")
    assert len(names(shared, "keys", "cur")) == 1


def test_a_conversation_that_waits_is_shown_resumed_and_cancelled(shared, reader):
    one = reader(shared).open()
    order = {"from_agent": "ann", "to_agent": "ben", "goal": "Agree on a colour", "max_turns": 2}
    talk = shared.ask("POST", "/conversations/", order).json["conversation_id"]
    shared.mail("conversation", "needs-human", talk, "--as", "ben")
    card = one.page.locator(".waiting li", has_text="Agree on a colour")
    card.wait_for()
    shown = " ".join(card.inner_text().split())
    assert re.search(r"ann and ben · 1 of 2 turns · asked for a person (just now|\d+ s ago)", shown)
    card.get_by_label("+ turns").fill("3")
    card.get_by_role("button", name="Resume").click()
    card.wait_for(state="detached")
    state = shared.ask("GET", f"/conversations/{talk}").json
    assert (state["state"], state["max_turns"]) == ("active", 5)
    shared.mail("conversation", "needs-human", talk, "--as", "ben")
    card.wait_for()
    card.get_by_role("button", name="Cancel").click()
    card.wait_for(state="detached")
    assert shared.ask("GET", f"/conversations/{talk}").json["state"] == "cancelled"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_that_shuts_anybody_out(shared, reader, scheme):
    import axe_playwright_python

    axe = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
    shared.send("axe", "A subject", refs=["one"], body="text")
    watcher = shared.mail.start("watch", "watched")
    until(lambda: shared.mail("status", "--agent", "watched").answer, "a mailbox that is watched")
    talk = shared.ask("POST", "/conversations/", {"from_agent": "axe", "to_agent": "eve", "goal": "A goal"}).json
    shared.mail("conversation", "needs-human", talk["conversation_id"], "--as", "axe")
    for size in ({"width": 1180, "height": 900}, {"width": 390, "height": 844}):
        one = reader(shared, color_scheme=scheme, viewport=size, reduced_motion="reduce").open()
        one.page.locator(".waiting li").first.wait_for()
        one.page.get_by_text("Write a message").click()
        one.page.get_by_role("link", name="A subject", exact=True).first.click()
        one.page.locator(".thread textarea").first.wait_for()
        one.page.evaluate(axe)
        found = one.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        assert [(v["id"], [n["html"][:120] for n in v["nodes"][:3]]) for v in found["violations"]] == []
        one.page.evaluate("document.querySelector('main').append(new Image())")
        planted = one.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        assert [v["id"] for v in planted["violations"]] == ["image-alt"]  # the control: it does look
        assert not one.page.evaluate("document.documentElement.scrollWidth > innerWidth")
    watcher.kill()
    watcher.communicate()


def test_signing_in_reads_and_works_without_a_script(keyed, reader):
    by = keyed.bearer()
    for subject in ("One", "Two"):
        order = {"from_agent": "hub", "to_agent": "plain", "subject": subject, "body": f"text of {subject}"}
        keyed.ask("POST", "/messages/", order, by)
    one = reader(keyed, java_script_enabled=False)
    one.page.goto(keyed.address)
    one.page.get_by_label("Key").fill("not-the-key")
    one.page.get_by_role("button", name="Sign in").click()
    one.page.get_by_text("This key is not known here.").wait_for()
    one.page.get_by_label("Key").fill(keyed.key())
    one.page.get_by_role("button", name="Sign in").click()
    one.complaints.clear()  # the 401s of before
    one.page.get_by_role("button", name="Mark read One").click()
    one.page.get_by_text("Marked read.").wait_for()
    one.page.wait_for_load_state()  # that stands at the top of the page
    assert one.subjects() == ["Two"]
    one.page.get_by_role("link", name="Two", exact=True).click()
    one.page.get_by_text("text of Two").wait_for()
    one.page.get_by_label("Reply to hub").fill("an answer")
    one.page.get_by_role("button", name="Send reply").click()
    one.page.get_by_text("Nothing is waiting.").or_(one.page.get_by_text("Re: Two")).first.wait_for()
    assert len(names(keyed, "hub", "new")) == 1
    one.page.get_by_text("Write a message").click()
    for label, text in (("From", "me"), ("To", "plain"), ("Subject", "By a form"), ("Text", "line one\nline two")):
        one.page.get_by_label(label, exact=True).fill(text)
    one.page.get_by_role("button", name="Send", exact=True).click()
    one.page.get_by_role("link", name="By a form", exact=True).wait_for()
    [form] = [m for m in keyed.ask("GET", "/messages/", headers=by).json if m["subject"] == "By a form"]
    assert form["body"] == "line one\nline two"
    one.page.get_by_role("link", name="Everything", exact=True).click()
    one.page.get_by_role("heading", name="Everything").wait_for()
    one.page.get_by_role("button", name="Sign out").click()
    one.page.get_by_label("Key").wait_for()
    one.complaints.clear()  # and the 401 of after
    assert keyed.key() not in keyed.log.read_text()


def test_signed_in_it_is_live_and_signed_out_it_shows_nothing(keyed, reader):
    one = reader(keyed)
    one.page.goto(keyed.address)
    one.page.get_by_label("Key").fill(keyed.key())
    one.page.get_by_role("button", name="Sign in").click()
    one.live()
    keyed.mail("send", "--from", "hub", "--to", "signed", "--subject", "For you")
    one.page.get_by_role("button", name="Mark read For you").click()
    one.row("For you").wait_for(state="detached")
    assert len(names(keyed, "signed", "cur")) == 1
    [cookie] = one.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    one.context.clear_cookies()
    keyed.mail("send", "--from", "hub", "--to", "signed", "--subject", "Behind the door")
    one.page.get_by_label("Key").wait_for()  # the page notices by itself
    assert "Behind the door" not in one.page.content()
    one.complaints.clear()  # the 401s


def test_a_server_that_was_killed_is_found_again(post, reader):
    with Served(post, "--no-auth") as first:
        first.send("phoenix", "Before")
        one = reader(first).open()
        one.row("Before").wait_for()
        first.stop(kill=True)
        one.page.wait_for_selector("#wire[data-state=lost]", timeout=SOON_MS)
        one.page.get_by_role("link", name="Before", exact=True).click()
        one.page.get_by_text("This thread cannot be shown just now.").wait_for()
        post("send", "--from", "hub", "--to", "phoenix", "--subject", "Meanwhile")
        with Served(post, "--no-auth", port=first.port):
            one.row("Meanwhile").wait_for()
            one.live()
            one.complaints.clear()  # refused connections, as it should be


def test_five_hundred_messages_and_long_words_stay_in_their_place(shared, reader):
    from maildir_agents import Spool

    orders = [{"sender": "hub", "recipient": "many", "subject": f"{n} {'W' * (n % 400 + 1)}"} for n in range(500)]
    Spool(shared.mail.spool).send_many(orders)
    for width in (1180, 390):
        one = reader(shared, viewport={"width": width, "height": 844}).open("/?to=many&show=1000")
        assert one.page.locator("a.open").count() == 500
        assert not one.page.evaluate("document.documentElement.scrollWidth > innerWidth")
        tallest = one.page.evaluate("Math.max(...[...document.querySelectorAll('.row')].map(r => r.offsetHeight))")
        assert tallest < 140
    few = reader(shared).open("/?to=many")
    assert few.page.locator("a.open").count() == 100
    few.page.get_by_role("link", name="Show more").click()
    few.page.locator("a.open").nth(499).wait_for()
    few.page.wait_for_load_state()
    assert few.page.locator("a.open").count() == 500

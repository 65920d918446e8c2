"""Orders that lose mail, each put in place of the right one: what the harness has to find.

`patch` is anything with `setattr(owner, name, value)`.
"""

import os

from maildir_agents.disk.moves import Disk
from maildir_agents.errors import MailError
from maildir_agents.mail import deadletter, mending, publish
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.mail.message import lay_out
from maildir_agents.mail.reading import envelope_at
from maildir_agents.mail.settle import settle
from maildir_agents.verbs import failed, read, reply, send


def rename_before_the_anchor(patch):
    def post(spool, message, key=None):
        draft, made = publish.write_draft(spool, message["recipient"], message["id"], lay_out(message, publish.encode))
        new = f"{spool.box(message['recipient'])}/new/{message['id']}.json"
        spool.disk.move(draft, new)
        if key:
            spool.disk.publish(new, key)
            spool.disk.sync(os.path.dirname(key))
        spool.disk.publish(new, spool.anchor(message["id"]))
        spool.disk.sync(os.path.dirname(new))
        return None, made

    patch.setattr(send, "post", post)


def acknowledge_before_the_reply(patch):
    answer = reply.answer

    def settle_first(spool, message, parent_id, token, *rest):
        box = Mailbox(spool, message["sender"])
        settle(box, box.find(parent_id), token, "ack")
        return answer(spool, message, parent_id, token, *rest)

    patch.setattr(reply, "answer", settle_first)


def no_sync_of_the_file(patch):
    fill = Disk._fill
    patch.setattr(Disk, "_fill", lambda disk, fd, data, sync: fill(disk, fd, data, False))


def no_sync_of_the_directory(patch):
    patch.setattr(Disk, "sync", lambda disk, directory: None)


def no_sync_of_a_new_directory(patch):
    patch.setattr(Disk, "sync_made", lambda disk, directory: None)


def sync_again_what_could_not_be_synced(patch):
    def twice(disk, fd, data, sync):
        while data:
            data = data[disk._write(fd, data) :]
        try:
            disk._fsync(fd)
        except OSError:
            disk._fsync(fd)

    patch.setattr(Disk, "_fill", twice)


def mark_before_the_output(patch):
    enter = read.Reading.__enter__

    def mark_at_once(reading):
        enter(reading)
        try:
            reading._settle()
        except BaseException:
            reading._release()
            raise
        return reading

    patch.setattr(read.Reading, "__enter__", mark_at_once)


def say_not_sent_after_the_commit(patch):
    finish = publish.finish

    def refuse(*given, **named):
        try:
            finish(*given, **named)
        except MailError as error:
            raise error.__cause__ from None

    patch.setattr(publish, "finish", refuse)


def move_to_failed_without_a_reason(patch):
    patch.setattr(deadletter, "_reserve", lambda *given: True)


def purge_the_state_first(patch):
    def unlink(box, found):
        spool, path = box.spool, box.where(found)
        spool.disk.discard(path)
        return path

    patch.setattr(failed, "to_trash", unlink)


def leave_the_draft(patch):
    patch.setattr(mending, "_collect", lambda box, text: None)


def unlink_what_is_not_set_aside(patch):
    def collect(box, text):
        path = f"{box.path}/tmp/{text}"
        message = envelope_at(path)
        if message is not None and publish.committed(box.spool, path, message):
            publish.publish(box.spool, box.agent, message)
        elif mending.age_ms(box.spool, path) > mending.ABANDONED_MS:
            box.spool.disk.discard(path)

    patch.setattr(mending, "_collect", collect)

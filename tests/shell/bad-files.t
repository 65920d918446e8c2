#!/bin/sh
. ./tap.sh
reader() { spool claim bob; } # works without flock, too

mkfifo "$mail/agents/bob/new/${ID}0.json"
ln -s /etc/passwd "$mail/agents/bob/new/${ID}1.json"
mkdir "$mail/agents/bob/new/${ID}2.json"
echo '{' | drop bob "new/${ID}3.json"
printf '\000\000' | drop bob "new/${ID}4.json"
letter "${ID}5" carol | drop bob "new/${ID}5.json"
letter "${ID}6" bob | drop bob "new/foreign
${ID}7.json"
letter "${ID}7" bob | drop bob "new/${ID}8.json"
letter "${ID}9" bob | drop bob "new/${ID}9.json"
claim=$(reader 2>"$place/said")
is "${claim%%~*}" "$mail/agents/bob/claimed/${ID}9" "the mail behind bad files flows in the same call, and nothing hangs"
is "$(find "$mail/agents/bob/failed" -name '*.reason.json' -exec sed 's/.*"code":"\([a-z_]*\)".*/\1/' {} \; | sort | tr '\n' ' ')" "bad_id not_json not_json not_yours " "what can't be mail is in failed/ with its reason"
is "$(ls -d "$mail/agents/bob/new/"* | wc -l | tr -d ' ')" 5 "a FIFO, a link, a directory and a foreign name stay"
is "$(spool count bob | cut -f 5)" 4 "dead letters are counted"
[ "$(spool trace "${ID}9" | grep -c '^now.claimed.bob')" = 1 ]
ok $? "what a script dropped is traced like other mail"
[ "$mail/messages/2026-11-30/${ID}9.json" -ef "$claim" ]
ok $? "and anchored"

young=$mail/agents/bob/new/${ID}a.json
until begun=$(date +%s) && echo x >"$young" && reader >/dev/null 2>&1 && [ $(($(date +%s) - begun)) -lt 2 ]; do
    rm -f "$mail/agents/bob/failed/${ID}a"* # on a slow machine it may have been old when it was looked at
done
[ -f "$young" ]
ok $? "and a file still being written stays"
rm -f "$young"

spool ack "$claim" >/dev/null
letter "${ID}1" bob | drop bob "new/${ID}1~n1.json"
cp -p "$mail/agents/bob/new/${ID}1~n1.json" "$mail/agents/bob/cur/${ID}1.json.bak"
echo other >"$mail/agents/bob/cur/${ID}1~n1.json.bak"
claim=$(reader 2>/dev/null)
is "${claim%%~*}" "$mail/agents/bob/claimed/${ID}1" "a foreign name that begins with an id is no further name of that message"
spool ack "$claim" >/dev/null
rm "$mail/agents/bob/cur/"*.bak
letter "${ID}9" bob other | drop bob "new/${ID}9~n3.json"
is "$(reader 2>/dev/null)" '' "another message with an id that is taken is not given out"
is "$(find "$mail/agents/bob/failed" -name "${ID}9*.reason.json" -exec grep -c id_clash {} \;)" 1 "but a dead letter, id_clash"
ln "$mail/messages/2026-11-30/${ID}9.json" "$mail/agents/bob/new/${ID}9~n7.json"
is "$(reader 2>/dev/null)" '' "a second name of a settled message is not given out"
[ ! -e "$mail/agents/bob/new/${ID}9~n7.json" ]
ok $? "and goes"

printf '{"id":"%s","sender":"alice","recipient":"bob","subject":"s","kind":null,"created":"2026-11-30T18:47:12.000Z","body":"left"}\n' "${ID}b" >"$mail/agents/bob/tmp/${ID}b.json"
mkdir -p "$mail/messages/2026-11-30" && ln "$mail/agents/bob/tmp/${ID}b.json" "$mail/messages/2026-11-30/${ID}b.json"
printf 'half' | drop bob "tmp/${ID}c.json"
printf 'half' >"$mail/agents/bob/tmp/${ID}d.json"
claim=$(reader 2>/dev/null)
is "$(spool show --body "$claim")" left "a draft that was committed is delivered by the next caller"
is "$(ls "$mail/agents/bob/tmp")" "${ID}d.json" "an old one that was not is removed, a young one is left alone"

echo '{}' | drop bob "new/${ID}e~c1.json"
reader >/dev/null 2>&1
is "$(spool ls bob failed | grep -c "${ID}e")" 1 "the reason of a dead letter is not taken for a message with an unknown stamp"
{ letter "${ID}f" bob | tr -d '\n' && printf '"'; } | drop bob "new/${ID}f.json"
reader >/dev/null 2>&1
is "$(sed 's/.*"code":"\([a-z_]*\)".*/\1/' "$mail/agents/bob/failed/${ID}f.reason.json")" not_json "a quote behind the object is something behind it"
letter "${ID}0" bob 'x\u12' | drop bob "new/${ID}0~n1.json"
reader >/dev/null 2>&1
is "$(grep -cF "\\" "$mail/agents/bob/failed/${ID}0~n1.reason.json")" 0 "a reason is JSON, whatever it is about"
late=ffffffff-ffff-7e11-9d3f-5b0c6a1e8f00
letter $late bob | drop bob "new/$late.json"
is "$(spool ack "$(reader)" | sed 's/.*\/acked\/\([^/]*\/[^/]*\)\/.*/\1/')" 10889-08-02/0531 "an id of the last year has a day, too"
[ -f "$mail/messages/10889-08-02/$late.json" ]
ok $? "under which it is anchored"
spool check | cut -f 1 | sort | uniq -c | sed 's/^ *//' | tr '\n' ' ' >"$place/checked"
is "$(cat "$place/checked")" "4 foreign " "spool-check finds what lies where it should not, and no more"

(cd "$place" && i=0 && while [ $i -lt 3000 ]; do i=$((i + 1)); echo "$i"; done) | awk -v box="$mail/agents/alice/new" '
    { id = sprintf("01a22dc9-%04x-7e11-9d3f-5b0c6a1e8f02", $1)
      file = box "/" id ".json"
      printf "{\"id\":\"%s\",\"sender\":\"cron\",\"recipient\":\"alice\",\"subject\":\"s\",\"created\":\"2026-11-30T18:47:12.000Z\",\"body\":\"%d\"}\n", id, $1 > file; close(file) }'
is "$(spool ls alice | wc -l | tr -d ' ')" 3000 "a directory of 3,000 is listed"
is "$(spool show --body "$(spool claim alice)")" 1 "and claimed from, oldest first"
is "$(spool count alice)" "alice	2999	3000	1	0" "and counted"
finish

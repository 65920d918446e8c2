#!/bin/sh
. ./tap.sh

body_of() { spool show --body "$1" >"$place/body" && cat "$place/body"; }

id=$(spool send --from alice --to bob --subject 'a subject' --body 'a body')
is "$(spool ls bob)" "$mail/agents/bob/new/$id.json" "a message sent is unread, and its path is told"
is "$(spool show --json "$id")" "{\"id\":\"$id\",\"sender\":\"alice\",\"recipient\":\"bob\",\"subject\":\"a subject\",\"kind\":null,\"reply_to\":null,\"thread_id\":null,\"conversation_id\":null,\"turn\":null,\"hops\":null,\"response_deadline\":null,\"dedup_key\":null,\"refs\":[],\"headers\":{},\"created\":\"$(spool show --field created "$id")\",\"body\":\"a body\"} " "it has all sixteen fields in the writers' order"

# ---- every text comes back byte for byte
for text in 'quote " and \ backslash' '\n is no newline' '%s %d %%' '-n' '--subject' '$(touch pwned) `x` ${HOME}' "it's" 'tab	here' ' blanks  at both ends ' 'ünïcödé 漢字 🙂' '*' '~' '!'; do
    id=$(spool send --from alice --to bob --subject s --body "$text")
    is "$(spool show --body "$id")" "$text" "a body comes back: $text"
    case $text in *'	'*) continue ;; esac
    id=$(spool send --from alice --to bob --subject "$text")
    is "$(spool show --field subject "$id")" "$text" "a subject comes back: $text"
done
printf 'ends in newlines\n\n\n' >"$place/a file"
id=$(spool send --from alice --to bob --subject s --body-file "$place/a file")
body_of "$id" >"$place/back"
cmp -s "$place/a file" "$place/back"
ok $? "final newlines are kept, from a file with a blank in its name"
id=$(spool send --from alice --to bob --subject s --body-file - <"$place/a file")
spool show --body "$id" | cmp -s "$place/a file" -
ok $? "and from standard input"
id=$(spool send --from alice --to bob --subject s --body 'x
')
spool show --body "$id" | od -An -c | tr -d ' \n' >"$place/od"
is "$(cat "$place/od")" 'x\n' "and from an argument"
printf 'dashed' >"$place/-dashed"
is "$(spool show --body "$(cd "$place" && spool send --from alice --to bob --subject s --body-file -dashed)")" dashed "a file's name may begin with a dash"
: >"$place/-empty"
id=$(cd "$place" && spool send --from alice --to bob --subject s --body-file -empty)
is "$(spool show --body "$id" | wc -c | tr -d ' ')" 0 "an empty body is empty"
printf 'a\r\nb\rc' >"$place/cr"
id=$(spool send --from alice --to bob --subject s --body-file "$place/cr")
spool show --body "$id" | cmp -s "$place/cr" -
ok $? "carriage returns are kept"
dd if=/dev/zero bs=1024 count=1024 2>/dev/null | tr '\000' 'x' >"$place/large"
id=$(spool send --from alice --to bob --subject s --body-file "$place/large")
spool show --body "$id" | cmp -s "$place/large" -
ok $? "a mebibyte is a body"
echo >>"$place/large"
before=$(spool ls bob | wc -l)
status 64 "a byte more is refused" send --from alice --to bob --subject s --body-file "$place/large"
is "$(code)" too_large "by its code"

if [ -r /proc/self/mem ]; then
    status 1 "a body that can't be read to its end is not sent" send --from alice --to bob --subject s --body-file /proc/self/mem
    is "$(code)" cannot_read "by its code"
else
    skip "a body that can't be read to its end is not sent" "no /proc/self/mem"
fi

# ---- what the protocol refuses is refused, and nothing is left of it
refused() { # CODE NAME ARGUMENT...
    wanted_code=$1 promise=$2
    shift 2
    status 64 "refused: $promise" send --from alice --to bob "$@"
    is "$(code)" "$wanted_code" "by its code: $promise"
}
printf 'a\000b' >"$place/nul"
printf 'a\377b' >"$place/latin"
printf 'a\302\205b' >"$place/c1"
printf 'a\355\240\200b' >"$place/surrogate"
printf 'a\300\257b' >"$place/overlong"
for file in nul latin c1 surrogate overlong; do refused bad_body "a body of $file" --subject s --body-file "$place/$file"; done
refused bad_body "a bell in a body" --subject s --body "$(printf 'a\007b')"
refused bad_subject "no subject"
refused bad_subject "two lines of subject" --subject "a${newline}b"
refused bad_subject "a tab in a subject" --subject "a	b"
refused bad_subject "U+2028 in a subject" --subject "$(printf 'a\342\200\250b')"
refused bad_subject "a subject that is not UTF-8" --subject "$(printf 'a\377')"
refused bad_subject "501 characters" --subject "$(printf %501s x | tr ' ' x)"
refused bad_agent "two colons" --subject s --to a:b:c
refused bad_agent "a path" --subject s --to ../bob
refused bad_refs "a ref of two lines" --subject s --ref "a${newline}b"
refused too_large "an envelope beyond 8 KiB" --subject s --ref "$(printf %4000s x)" --ref "$(printf %4000s x)" --ref "$(printf %400s x)"
refused usage "everybody" --subject s --to '*'
status 64 "an option without its value" send --from alice --to
is "$(spool ls bob | wc -l)" "$before" "nothing of it was delivered"
is "$(find "$mail/agents/bob/tmp" -type f)" '' "no draft was left"
status 64 "a refused message makes no mailbox" send --from alice --to nobody --subject "a	b"
[ ! -e "$mail/agents/nobody" ]
ok $? "indeed none"
wide=$(printf %500s x | sed 's/[x ]/é/g')
id=$(spool send --from alice --to bob --subject "$wide")
is "$(spool show --field subject "$id")" "$wide" "500 characters of two bytes are a subject"

# ---- keys, replies, threads
first=$(spool send --from alice --to bob --subject keyed --dedup-key 'a key' --ref 'a path' --ref b)
is "$(spool send --from alice --to bob --subject again --dedup-key 'a key')" "$first" "a key is sent once"
is "$(spool ls bob | grep -c "$first")" 1 "and delivered once"
is "$(printf '5:alice,5:a key,' | sha256sum | cut -c 1-64)" "$(basename "$(find "$mail/dedup" -name '*.json')" .json)" "its name is the hash of two netstrings"
is "$(spool show "$first" | grep '^Ref: ' | tr '\n' ' ')" "Ref: a path Ref: b " "refs are kept in order"
reply=$(spool send --from bob --to alice --subject re --reply-to "$first")
is "$(spool show --field reply_to "$reply")$(spool show --field thread_id "$reply")" "$first$first" "a reply joins the thread"
is "$(find "$mail/threads/$first" -name '*.json' | wc -l | tr -d ' ')" 2 "and the thread's directory, with the root"
is "$(spool ls bob acked | grep -c "$first")" 1 "and acknowledges what it answers"
second=$(spool send --from alice --to bob --subject 'question' )
status 0 "a reply that acknowledges nothing" send --from bob --to alice --subject re --reply-to "$second" --no-ack
is "$(spool ls bob | grep -c "$second")" 1 "leaves it unread"
status 64 "a reply to an empty name is no plain message" send --from bob --to alice --subject re --reply-to ''
is "$(code)" bad_id "by its code"
status 66 "a reply to nothing" send --from bob --to alice --subject re --reply-to "${ID}9"
finish

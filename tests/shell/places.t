#!/bin/sh
. ./tap.sh

for tool in "$tools"/spool-*; do
    called=${tool##*/spool-}
    is "$(spool "$called" -h)" "$(sed -n '2s/^# //p' "$tool")" "spool-$called -h prints its first comment line"
    case $(spool "$called" -h) in "usage: spool-$called "*) ok 0 "which is its usage" ;; *) ok 1 "which is its usage" ;; esac
    spool "$called" --nonsense >/dev/null 2>&1
    is "$?" 64 "spool-$called refuses an option it has not"
done
ln -s "$tools/spool-ls" "$place/list"
ln -s list "$place/list2"
is "$(cd / && ${UNDER:-sh} "$place/list2" bob)" '' "a tool finds its library through links"
(cd "$tools" && ${UNDER:-sh} spool-ls bob)
ok $? "and from beside it"
status 64 "a spool whose path would be two lines is refused" ls --spool "/a${newline}b" bob
is "$(spool count nobody)" "nobody	0	0	0	0" "who has no mailbox has no mail"
status 64 "a relative spool is refused" ls --spool somewhere bob
status 73 "a directory that is no spool is refused" ls --spool "$place" bob
is "$(unset AGENT_MAIL_SPOOL && HOME=$place/home XDG_STATE_HOME='' spool ls bob 2>&1)" "spool-ls: not_a_spool: $place/home/.local/state/agent-mail is no spool: spool-init makes one" "without a name it is where agent-mail looks"
is "$(unset AGENT_MAIL_SPOOL HOME && spool ls bob 2>&1)" "spool-ls: not_a_spool: $(eval "echo ~$(id -un)")/.local/state/agent-mail is no spool: spool-init makes one" "without HOME it is the home that the system knows, as for agent-mail"
is "$(unset AGENT_MAIL_SPOOL && XDG_STATE_HOME=$place/state spool ls bob 2>&1)" "spool-ls: not_a_spool: $place/state/agent-mail is no spool: spool-init makes one" "XDG_STATE_HOME before HOME"
cp -R "$mail" "$place/other"
printf '{"limits": {"body_bytes": 9, "waiting": 2}, "format":1,"durability" : "none", "x": {"format": 7}}' >"$place/other/spool.json"
status 0 "a spool.json of another hand is understood" send --spool "$place/other" --from alice --to bob --subject s --body 123456789
status 64 "with its limits" send --spool "$place/other" --from alice --to bob --subject s --body 1234567890
spool send --spool "$place/other" --from alice --to bob --subject s >/dev/null
status 75 "a full mailbox refuses" send --spool "$place/other" --from alice --to bob --subject s
is "$(code)" mailbox_full "by its code"
printf '{"limits": {"waiting": 1}, "format": 1, "durability": "none"}' >"$place/other/spool.json"
status 0 "an empty mailbox is not full" send --spool "$place/other" --from bob --to alice --subject s
status 75 "one with a message is, where one is the limit" send --spool "$place/other" --from bob --to alice --subject s
echo '{"format": 2}' >"$place/other/spool.json"
status 73 "a newer format is refused" ls --spool "$place/other" bob
is "$(code)" newer_format "by its code"
for tool in ack show release renew trace; do
    status 64 "spool-$tool is not content with an empty name" $tool --spool "$mail" ''
    is "$(code)" bad_id "by its code"
done
status 64 "spool-wait does not overlook what stands behind the agent" wait bob --timeout 1
status 64 "nor does spool-claim" claim bob "${ID}1" --worker w
status 0 "a spool that is whole is clean" check
is "$(AGENT_ID=bob spool ls)" '' "AGENT_ID stands for the agent"
finish

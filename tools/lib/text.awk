# What message.awk and compose.awk ask of a text.  In the C locale, where characters are bytes.

# Each sequence becomes a blank, not nothing: else the bytes around it would meet and look like another.
function utf8(s) {
    if (s ~ /(\340[\200-\237])|(\355[\240-\277])|(\360[\200-\217])|(\364[\220-\277])/) return 0
    gsub(/[\302-\337][\200-\277]/, " ", s)
    gsub(/[\340-\357][\200-\277][\200-\277]/, " ", s)
    gsub(/[\360-\364][\200-\277][\200-\277][\200-\277]/, " ", s)
    return s !~ /[\200-\377]/
}

function characters(s) { gsub(/[\200-\277]/, "", s); return length(s) }

# Every control character, those of C1 (two bytes in UTF-8) too; and those that may not even stand in a body.
function control(s) { return s ~ /[\001-\037\177]/ || s ~ /\302[\200-\237]/ }
function forbidden(s) { return s ~ /[\001-\010\013\014\016-\037\177]/ || s ~ /\302[\200-\237]/ }

function uuid(s) {
    return length(s) == 36 && s ~ /^[0-9a-f-]+$/ && substr(s, 20, 1) ~ /[89ab]/ && gsub(/-/, "-", s) == 4 \
        && substr(s, 9, 1) substr(s, 14, 2) substr(s, 19, 1) substr(s, 24, 1) == "--7--"
}

function agent(s) { return length(s) <= 100 && s != "broadcast" && s ~ /^[a-z0-9][a-z0-9._-]*(:[a-z0-9][a-z0-9._-]*)?$/ && s !~ /\n/ }

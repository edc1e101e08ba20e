# docs/glossary.md -> the page at /glossary: "| <a id=..></a>word | meaning |" becomes a term and its meaning. The rest of the file is its head.
function escaped(text) {
    gsub(/&/, "\\&amp;", text)
    gsub(/</, "\\&lt;", text)
    gsub(/>/, "\\&gt;", text)
    return text
}

function coded(text,    out) {
    while (match(text, /`[^`]*`/)) {
        out = out substr(text, 1, RSTART - 1) "<code>" substr(text, RSTART + 1, RLENGTH - 2) "</code>"
        text = substr(text, RSTART + RLENGTH)
    }
    return out text
}

BEGIN {
    print "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">"
    print "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
    print "<meta name=\"color-scheme\" content=\"light dark\">\n<title>llmemd: words</title>\n<link rel=\"stylesheet\" href=\"/page.css\">\n</head>\n<body>"
    print "<header><h1>Words</h1><p>Those of an answer. Sizes are of one GPU unless they say otherwise; GiB are 2^30 bytes.</p>"
    print "</header>\n<main>\n<dl class=\"words\">"
}

/^\| <a id=/ {
    line = substr($0, 3, length($0) - 4)
    at = index(line, " | ")
    word = substr(line, 1, at - 1)
    ids = ""
    while (match(word, /<a id="[^"]*"><\/a>/)) {
        ids = ids "<a id=\"" substr(word, RSTART + 7, RLENGTH - 13) "\"></a>"
        word = substr(word, 1, RSTART - 1) substr(word, RSTART + RLENGTH)
    }
    print "<dt>" ids escaped(word) "</dt>\n<dd>" coded(escaped(substr(line, at + 3))) "</dd>"
}

END {
    print "</dl>\n</main>\n<footer><p><a href=\"/\">llmemd</a></p></footer>\n</body>\n</html>"
}

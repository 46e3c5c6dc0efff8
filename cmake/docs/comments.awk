# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Converts headers for Doxygen: removes the inline namespace, makes paragraphs of the fields of comments (Before, Cost, ...) and a list of the forms of a call.
NR == 2, !/^\/\// {
  if (/^\/\/ /) head = head (head == "" ? "" : " ") substr($0, 4)  # the purpose of the file, used as brief for a comment that begins with a field
}
{ gsub(/::inline KOLO_ABI/, "") }
/^ *\/\/\/ / {
  indent = substr($0, 1, index($0, "///") + 2)
  text = substr($0, length(indent) + 2)
  field = text ~ /^(Before|After|Cost|Order|Errors|Source)(  |: )/
  form = text ~ /^[a-z_]+\([a-z][^)]*\)(  .*)?$/ && (form || !within)
  if ((field || form) && !within && head != "") {
    print indent " " head "\n" indent
    head = ""
  }
  within = 1
  if (field) {
    word = text
    sub(/[ :].*/, "", word)
    sub(/^[A-Za-z]+:? */, "", text)
    print indent " @par " word "\n" indent " " text
    next
  }
  if (form) {
    end = index(text, ")")
    print indent " - `" substr(text, 1, end) "`" substr(text, end + 1)
    next
  }
  print
  next
}
{ if (!/^ *\/\/\/$/) within = form = 0 }
{ print }

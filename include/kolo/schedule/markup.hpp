// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text of pictures: XML, titles and names. Opt-in, with draw.hpp.
#pragma once

#include <kolo/schedule/replay.hpp>
#include <kolo/schedule/verdict.hpp>

#include <algorithm>
#include <string>
#include <string_view>

namespace kolo::inline KOLO_ABI::detail::schedule {

/// Builds XML from strings and integers.
class markup {
 public:
  void put(const auto&... parts) { (append(parts), ...); }
  const std::string& text() const { return text_; }

  static std::string escaped(std::string_view raw) {
    std::string safe;
    for (const char c : raw) {
      if (c == '&') safe += "&amp;";
      else if (c == '<') safe += "&lt;";
      else if (c == '>') safe += "&gt;";
      else if (c == '"') safe += "&quot;";
      else if (static_cast<unsigned char>(c) < ' ') safe += ' ';  // XML forbids most control characters
      else safe += c;
    }
    return safe;
  }

 private:
  void append(std::string_view part) { text_ += part; }
  void append(int number) { text_ += std::to_string(number); }
  std::string text_;
};

/// Writes the lines above a picture: name, collective, numbers, and any first fault. Returns where they end.
inline int put_title(markup& out, const erased_schedule& s, const replay& past, const verdict& found,
                     std::string_view name) {
  const auto sent =
      std::count_if(past.movements().begin(), past.movements().end(), [](const auto& m) { return m.from != m.to; });
  out.put("<text class=\"name\" x=\"0\" y=\"18\">", markup::escaped(name), "</text>\n");
  out.put("<text x=\"0\" y=\"37\">", kolo::name(s.collective), ", ", s.size, " ranks</text>\n");
  out.put("<text x=\"0\" y=\"54\">", s.rounds, s.rounds == 1 ? " round, " : " rounds, ", int(sent),
          sent == 1 ? " message" : " messages", found ? ", proven" : "", "</text>\n");
  if (!found) out.put("<text class=\"wrong\" x=\"0\" y=\"72\">", markup::escaped(found.message()), "</text>\n");
  return found ? 54 : 72;
}
/// An upper bound, in pixels.
inline int width_of_title(const verdict& found, std::string_view name) {
  return std::max(12 * int(name.size()), found ? 0 : 8 * int(found.message().size()));
}

/// The default title of a picture: the schedule's type, without the library's namespaces and without the collective at
/// its end: "ring", "sequence<ring::reduce_scatter, ...>", "my_ring".
template <class S>
std::string own_title() {
  std::string text = __PRETTY_FUNCTION__;  // ... [with S = kolo::v0::bruck::allgather; ...], or ... [S = ...]
  text.erase(0, text.find("S = ") + 4);
  text.resize(text.find_first_of(";]"));
  for (const std::string_view outer : {"kolo::", "v0::", "v0_compiled::", "(anonymous namespace)::", "{anonymous}::"})
    for (auto at = text.find(outer); at != text.npos; at = text.find(outer)) text.erase(at, outer.size());
  const std::string member = std::string{"::"} + kolo::name(S::collective);
  if (text.ends_with(member)) text.resize(text.size() - member.size());
  return text;
}

}  // namespace kolo::inline KOLO_ABI::detail::schedule

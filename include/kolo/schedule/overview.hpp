// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The picture of a schedule with many ranks or blocks: for each round, which rank sends to which, and what all hold.
// Opt-in, with draw.hpp.
#pragma once

#include <kolo/schedule/markup.hpp>
#include <kolo/schedule/replay.hpp>
#include <kolo/schedule/verdict.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::schedule {

/// Two squares for a round, drawn at the origin. Left: a point for each message, its sender down and its receiver
/// across. Right: a point for each rank (down) and block (across) after the round. A darker point means more. Of many
/// rounds it shows some at equal distances, with the first and the last.
class overview {
 public:
  static constexpr int most_rounds = 12;

  overview(const erased_schedule& s, const verdict& found, std::string_view name)
      : s_{s},
        past_{s},
        top_{put_title(out_, s, past_, found, name) + 24},
        point_{std::max(2, 192 / s.size)},
        title_width_{width_of_title(found, name)} {
    columns_ = std::min(past_.blocks(), std::max(s.size, 64));
    out_.put("<text x=\"0\" y=\"", top_ - 4,
             "\">left: who sends (down) to whom (across); right: what each rank (down) ", "holds of ",
             columns_ < past_.blocks() ? "groups of blocks" : "each block", " (across)</text>\n");
    const int shown = std::min(s.rounds, most_rounds);
    for (int i = 0; i < shown; ++i) round(shown < 2 ? 0 : i * (s.rounds - 1) / (shown - 1));
  }

  const std::string& text() const { return out_.text(); }
  int width() const { return std::max({2 * panel_width() - 44, 620, title_width_}); }
  int height() const { return top_ + (shown_ + 1) / 2 * panel_height() + 10; }

 private:
  /// A square of levels: 0 for nothing, else 1 ... 5 in proportion to `most`.
  struct square {
    int rows, columns;
    std::vector<int> level{};
    square(int r, int c) : rows{r}, columns{c}, level(std::size_t(r * c)) {}
    int& at(int row, int column) { return level[std::size_t(row * columns + column)]; }
  };
  static int level_of(int n, int most) { return n <= 0 ? 0 : std::max(1, (5 * n + most / 2) / std::max(1, most)); }

  int panel_width() const { return (s_.size + columns_) * point_ + 18 + 44; }
  int panel_height() const { return s_.size * point_ + 40; }

  void round(int k) {
    const int x = shown_ % 2 * panel_width(), y = top_ + shown_ / 2 * panel_height() + 26;
    ++shown_;
    square sent{s_.size, s_.size}, held{s_.size, columns_};
    int most = 0, messages = 0;
    for (const movement& m : past_.movements()) {
      if (m.round != k || m.from == m.to) continue;
      ++messages;
      most = std::max(most, sent.at(m.from, m.to) += std::max<int>(1, int(m.sent.size())));
    }
    for (int& n : sent.level) n = level_of(n, most);
    fill(k, held);
    out_.put("<text x=\"", x, "\" y=\"", y - 6, "\">round ", k, ": ", messages,
             messages == 1 ? " message" : " messages", "</text>\n");
    put(sent, x, y);
    put(held, x + s_.size * point_ + 18, y);
  }

  /// What all ranks hold after round k: for each block, the number of contributions if any are combined.
  void fill(int k, square& held) {
    const bool combines = reduces(s_.collective) || s_.collective == kind::barrier;
    for (int r = 0; r < s_.size; ++r)
      for (int c = 0; c < columns_; ++c) {
        const int first = c * past_.blocks() / columns_, end = (c + 1) * past_.blocks() / columns_;
        int all = 0;
        for (int b = first; b < end; ++b) {
          const auto ranks = past_.at(k + 1, r, b).ranks;
          all += combines ? std::popcount(ranks) : ranks != 0 ? 1 : 0;
        }
        held.at(r, c) = level_of(all, (end - first) * (combines ? s_.size : 1));
      }
  }

  void put(square& of, int x, int y) {
    out_.put("<rect class=\"empty\" x=\"", x, "\" y=\"", y, "\" width=\"", of.columns * point_, "\" height=\"",
             of.rows * point_, "\"/>\n");
    for (int level = 1; level <= 5; ++level) {
      markup path;  // of lines as wide as a point, in units of points
      for (int row = 0; row < of.rows; ++row)
        for (int c = 0, end; c < of.columns; c = std::max(end, c + 1)) {
          for (end = c; end < of.columns && of.at(row, end) == level;) ++end;
          if (end > c) path.put("M", c, " ", row, "h", end - c);
        }
      if (!path.text().empty())
        out_.put("<path class=\"dark\" stroke-opacity=\".", level == 5 ? 99 : 20 * level - 2,
                 "\" transform=\"translate(", x, " ", y, ")scale(", point_, ")translate(0 .5)\" d=\"", path.text(),
                 "\"/>\n");
    }
  }

  const erased_schedule& s_;
  replay past_;
  markup out_{};
  int top_, point_, title_width_, columns_ = 0, shown_ = 0;
};

}  // namespace kolo::inline KOLO_ABI::detail::schedule

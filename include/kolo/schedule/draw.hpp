// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pictures: a schedule as SVG, ranks across, rounds down, an arrow for each message, a cell for each block. Opt-in.
#pragma once

#include <kolo/schedule/markup.hpp>
#include <kolo/schedule/overview.hpp>
#include <kolo/schedule/replay.hpp>
#include <kolo/schedule/verify.hpp>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI {

namespace detail::schedule {

/// The layout, in pixels.
struct grid {
  int ranks, rounds, blocks;
  bool sliced;  ///< a cell has a slice for each rank
  int top;      ///< y of the first row of cells
  int slice = ranks <= 5 ? 5 : ranks <= 12 ? 4 : 2;
  int cell = blocks == 1 ? 16 : blocks <= 4 ? 12 : blocks <= 10 ? 8 : blocks <= 20 ? 6 : 3;
  int height = sliced ? std::max(slice * ranks, 12) : 16;
  int between = 18;  ///< gap between the cells of neighbouring ranks
  int column = std::max(blocks * cell, 18) + between;
  int pitch = height + 40 + 3 * ranks;
  int left = 54;

  int x(int rank, int block) const {
    return left + rank * column + (column - between - blocks * cell) / 2 + block * cell;
  }
  int y(int moment) const { return top + moment * pitch; }
  int width() const { return std::max(left + ranks * column - between, 220); }
  int bottom() const { return y(rounds) + height; }
};

/// One schedule, drawn at the origin.
class picture {
 public:
  picture(const erased_schedule& s, const verdict& found, std::string_view name, std::string prefix)
      : s_{s},
        past_{s},
        found_{found},
        prefix_{std::move(prefix)},
        at_{s.size, s.rounds, past_.blocks(), reduces(s.collective) || s.collective == kind::barrier, found ? 92 : 110},
        title_width_{width_of_title(found, name)} {
    put_title(out_, s, past_, found, name);
    for (int r = 0; r < s.size; ++r) head(r);
    for (int k = 0; k < s.rounds; ++k) label(k);
    for (const movement& m : past_.movements()) arrow(m);
    for (int k = 0; k <= s.rounds; ++k)
      for (int r = 0; r < s.size; ++r)
        for (int b = 0; b < past_.blocks(); ++b) cell(k, r, b);
    for (int r = 0; r < s.size; ++r) promise(r);
    if (!found) blame();
  }

  const std::string& text() const { return out_.text(); }
  int width() const { return std::max(at_.width(), title_width_); }
  int height() const { return at_.bottom() + 10; }

 private:
  void head(int r) {
    out_.put("<text class=\"rank\" x=\"", at_.x(r, 0) + at_.blocks * at_.cell / 2, "\" y=\"", at_.top - 14, "\">", r,
             "</text>");
    out_.put("<rect x=\"", at_.x(r, 0), "\" y=\"", at_.top - 10, "\" width=\"", at_.blocks * at_.cell - 1,
             "\" height=\"4\" fill=\"", colour(r), "\"/>\n");
    if (r == 0) out_.put("<text x=\"0\" y=\"", at_.top - 14, "\">rank</text>\n");
  }

  void label(int k) {
    out_.put("<text x=\"0\" y=\"", (at_.y(k) + at_.height + at_.y(k + 1)) / 2 + 4, "\">", k == 0 ? "round " : "", k,
             "</text>\n");
  }

  /// Spreads the ranks over the circle of hues; with more than 8 ranks, every other one is lighter.
  std::string colour(int r) const {
    markup hsl;
    hsl.put("hsl(", 360 * r / s_.size, ",", 62, "%,", s_.size > 8 && r % 2 == 1 ? 66 : 54, "%)");
    return hsl.text();
  }

  /// From the sent blocks to the received ones, with a bracket over each. A message that no rank receives has no second
  /// bracket.
  void arrow(const movement& m) {
    const int down = at_.y(m.round) + at_.height + 4, up = at_.y(m.round + 1) - 4;
    const bool is_lost = m.received.empty() && !m.sent.empty(), is_copy = reduces(s_.collective) && !m.combines;
    out_.put("<path class=\"",
             m.from == m.to ? "own"
             : is_lost      ? "message lost"
             : is_copy      ? "message copy"
                            : "message",
             "\" stroke=\"", colour(m.from), "\" d=\"");
    bracket(m.from, m.sent, down);
    bracket(m.to, m.received, up);
    const int from = middle(m.from, m.sent), to = middle(m.to, is_lost ? m.sent : m.received),
              between = (down + up) / 2;
    out_.put("M", from, " ", down, "C", from, " ", between + 8, " ", to, " ", between - 8, " ", to, " ", up);
    out_.put("m-3 -6l3 6l3 -6\"/>\n");
  }

  void bracket(int r, const std::vector<int>& blocks, int y) {
    for (std::size_t i = 0; i < blocks.size();) {
      std::size_t end = i + 1;
      while (end < blocks.size() && blocks[end] == blocks[end - 1] + 1) ++end;
      out_.put("M", at_.x(r, blocks[i]) + 1, " ", y, "h", at_.cell * int(end - i) - 3);
      i = end;
    }
  }

  /// The x of the middle block; for a range that wraps around the end, the middle of one of its parts.
  int middle(int r, const std::vector<int>& blocks) const {
    if (blocks.empty()) return at_.x(r, 0) + at_.blocks * at_.cell / 2;
    const std::size_t i = blocks.size() / 2;
    const bool between_two = blocks.size() % 2 == 0 && blocks[i] == blocks[i - 1] + 1;
    return at_.x(r, blocks[i]) + (between_two ? 0 : at_.cell / 2 - 1);
  }

  void cell(int moment, int r, int b) {
    const holding& what = past_.at(moment, r, b);
    markup name;
    name.put(prefix_, what.twice ? "x" : "c", hexadecimal(what.ranks),
             b < s_.blocks * detail::schedule::block_sets(s_.collective) ? "" : "s");
    if (defined_.insert(name.text()).second) define(name.text(), what, b);
    out_.put("<use class=\"cell\" href=\"#", name.text(), "\" x=\"", at_.x(r, b), "\" y=\"", at_.y(moment), "\"/>\n");
  }

  /// Defines a cell with these contributions: a slice for each at the position of its rank, or the whole cell.
  void define(const std::string& name, const holding& what, int b) {
    const int w = at_.cell - 1;
    out_.put("<defs><g id=\"", name, "\"><rect class=\"",
             b < s_.blocks * detail::schedule::block_sets(s_.collective) ? "empty" : "empty scratch", "\" width=\"", w,
             "\" height=\"", at_.height, "\"/>");
    for (int r = 0; r < s_.size; ++r) {
      if ((what.ranks >> r & 1) == 0) continue;
      const int top = at_.sliced ? r * at_.height / s_.size : 0,
                end = at_.sliced ? (r + 1) * at_.height / s_.size : at_.height;
      out_.put("<rect y=\"", top, "\" width=\"", w, "\" height=\"", end - top, "\" fill=\"", colour(r), "\"/>");
    }
    if (what.twice) out_.put("<rect class=\"twice\" width=\"", w, "\" height=\"", at_.height, "\"/>");
    out_.put("</g></defs>\n");
  }

  static std::string hexadecimal(std::uint64_t bits) {
    std::string digits;
    do digits.insert(digits.begin(), "0123456789abcdef"[bits % 16]);
    while ((bits /= 16) != 0);
    return digits;
  }

  /// Frames the blocks that rank r must hold at the end.
  void promise(int r) {
    const auto is_wanted = [&](int b) { return required_after(s_.collective, r, b, s_.blocks, s_.size, s_.root); };
    for (int b = 0, end; b < past_.blocks(); b = std::max(end, b + 1)) {
      for (end = b; end < past_.blocks() && is_wanted(end);) ++end;
      if (end > b) frame("promised", s_.rounds, r, b, end - b);
    }
  }

  void frame(std::string_view what, int moment, int r, int b, int blocks = 1) {
    out_.put("<rect class=\"", what, "\" x=\"", at_.x(r, b) - 2, "\" y=\"", at_.y(moment) - 2, "\" width=\"",
             blocks * at_.cell + 3, "\" height=\"", at_.height + 4, "\"/>\n");
  }

  /// Frames the block that is missing, or that is wrong from then on.
  void blame() {
    if (found_.rank < 0 || found_.block < 0 || found_.block >= past_.blocks()) return;
    const bool before = found_.what == fault::sends_nothing || found_.what == fault::unmatched_send;
    frame("fault", found_.round < 0 ? s_.rounds : found_.round + (before ? 0 : 1), found_.rank, found_.block);
  }

  const erased_schedule& s_;
  replay past_;
  verdict found_;
  std::string prefix_;
  grid at_;
  int title_width_;
  std::set<std::string> defined_{};
  markup out_{};
};

}  // namespace detail::schedule

/// Pictures of schedules, side by side in one SVG, which is self-contained and readable on light and dark backgrounds.
/// The same schedules give the same text. A wrong schedule can be drawn, too: its first fault is named and framed. With
/// more than 16 ranks, or 12,000 cells, a picture has two squares for each of at most 12 rounds: which rank sends to
/// which, and what all ranks hold afterwards.
class drawing {
 public:
  /// `across`: pictures in a row; further ones go below it.
  explicit drawing(int across = 4) : across_{across} {}

  template <Schedule S>
  drawing& add(const S& schedule, int size, std::string_view name) {
    if (size < 2 || size > detail::schedule::replay::most_ranks)
      throw std::invalid_argument("kolo::draw: " + detail::core::ranks_text(size) + "; 2 to 64 can be drawn");
    const verdict found = verify(schedule, size);
    if (found.what == fault::unsupported || found.what == fault::bad_shape)
      throw std::invalid_argument("kolo::draw: " + found.message());
    const detail::schedule::erased<S> subject{schedule, size};
    const std::string title = name.empty() ? detail::schedule::own_title<S>() : std::string{name};
    if (size > 16 || (subject.rounds + 1) * size * subject.blocks > most_cells) {
      hang(detail::schedule::overview{subject, found, title});
    } else {
      hang(detail::schedule::picture{subject, found, title, std::string(1, 'a') + std::to_string(names_.size()) + "-"});
      sliced_ = sliced_ || detail::schedule::reduces(S::collective) || S::collective == kind::barrier;
      has_cells_ = true;
    }
    names_.push_back(detail::schedule::markup::escaped(title) + ": " + kolo::name(S::collective) + ", " +
                     std::to_string(size) + " ranks");
    return *this;
  }

  std::string svg() const {
    const int width = std::max(width_, 380), columns = width < 760 ? 1 : 2, legend = y_ + row_ + 26,
              height = legend + 4 / columns * 18;
    detail::schedule::markup out;
    out.put("<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 ", width + 2 * margin, " ",
            height + margin, "\" width=\"", width + 2 * margin, "\" height=\"", height + margin, "\">\n<title>");
    for (std::size_t i = 0; i < names_.size(); ++i) out.put(i == 0 ? "" : "; ", names_[i]);
    out.put("</title>\n<style>", style, "</style>\n<g transform=\"translate(", margin, " ", margin, ")\">\n",
            pictures_.text());
    for (int i = 0; i < 4 && has_cells_; ++i)
      out.put("<text x=\"", i % columns * 400, "\" y=\"", legend + i / columns * 18, "\">", key(i), "</text>\n");
    out.put("</g>\n</svg>\n");
    return out.text();
  }

 private:
  static constexpr int margin = 14, gap = 44, most_cells = 12000;
  static constexpr std::string_view style =
      "text{font:13px system-ui,-apple-system,'Segoe UI','DejaVu "
      "Sans',sans-serif;fill:#6e7781}.name{font-size:19px;font-weight:700}"
      ".rank{font-weight:700;text-anchor:middle}.wrong{fill:#e5534b}.empty{fill:#8b949e;fill-opacity:.18}.scratch{"
      "stroke:#8b949e;"
      "stroke-dasharray:2 2}.message,.own{fill:none;stroke-width:1.8}.copy{stroke-width:1.5;stroke-dasharray:5 "
      "3}.own{stroke-dasharray:1 2}"
      ".lost{stroke-width:3;stroke-dasharray:2 "
      "4}.dark{stroke:#2f6fd0}.promised{fill:none;stroke:#6e7781}.fault,.twice{fill:none;stroke:#e5534b}.fault{stroke-"
      "width:3}";

  std::string_view key(int i) const {
    if (i == 0)
      return sliced_ ? "A cell is a block; its slices: whose contribution it holds."
                     : "A cell is a block, in the colour of its source.";
    if (i == 1) return "An arrow is a message, in the colour of its sender.";
    return i == 2 ? "Framed: promised at the end." : sliced_ ? "Dashed: stored instead of combined." : "";
  }

  void hang(const auto& one) {
    if (hung_ == across_) y_ += row_ + gap, x_ = row_ = hung_ = 0;
    pictures_.put("<g transform=\"translate(", x_, " ", y_, ")\">\n", one.text(), "</g>\n");
    width_ = std::max(width_, x_ + one.width());
    x_ += one.width() + gap;
    row_ = std::max(row_, one.height());
    ++hung_;
  }

  int across_, hung_ = 0, x_ = 0, y_ = 0, row_ = 0, width_ = 0;
  bool sliced_ = false, has_cells_ = false;
  detail::schedule::markup pictures_{};
  std::vector<std::string> names_{};
};

/// One schedule as SVG. Without a name, the title is the name of the algorithm.
std::string draw(const Schedule auto& schedule, int size, std::string_view name = "") {
  return drawing{}.add(schedule, size, name).svg();
}
std::string draw(const detail::schedule::ManySchedules auto& a, int size, std::string_view title = "") {
  return detail::schedule::with_one<std::string>(a, [&](const auto& s) { return draw(s, size, title); });
}

}  // namespace kolo::inline KOLO_ABI

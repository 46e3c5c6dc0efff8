// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Renders digits that look handwritten: glyphs are deformed and shifted, strokes are drawn by distance, noise is added.
#include "generator.hpp"

#include "glyphs.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace digits {
namespace {

using canvas = std::array<float, pixels>;

/// Maps points of the glyph's square to pixels, with one writer's size, rotation, slant and tremor.
class hand {
 public:
  explicit hand(random_numbers& random) : random_{&random} {
    const float angle = random.uniform(-.36f, .36f), slant = random.uniform(-.3f, .3f);
    const float width = random.uniform(10.5f, 18.5f), height = random.uniform(14.5f, 20.5f);
    const float c = std::cos(angle), s = std::sin(angle);
    xx_ = c * width, xy_ = (-s + slant * c) * height;
    yx_ = s * width, yy_ = (c + slant * s) * height;
    x_ = 13.5f + random.uniform(-3, 3), y_ = 13.5f + random.uniform(-3, 3);
  }

  /// The pixel of a point of the glyph, with a small random offset in each call.
  point put(point p) const {
    const float x = p.x / 100 - .5f + .035f * random_->normal(), y = p.y / 100 - .5f + .035f * random_->normal();
    return {x_ + xx_ * x + xy_ * y, y_ + yx_ * x + yy_ * y};
  }

 private:
  random_numbers* random_;
  float xx_, xy_, yx_, yy_, x_, y_;
};

/// Inks the pixels within `radius` of the segment ab.
void draw_segment(canvas& ink, point a, point b, float radius) {
  const auto clip = [](float v) { return std::clamp(static_cast<int>(v), 0, side - 1); };
  const float dx = b.x - a.x, dy = b.y - a.y, square = std::max(dx * dx + dy * dy, 1e-6f);
  const int left = clip(std::min(a.x, b.x) - radius - 1), right = clip(std::max(a.x, b.x) + radius + 2);
  const int top = clip(std::min(a.y, b.y) - radius - 1), bottom = clip(std::max(a.y, b.y) + radius + 2);
  for (int y = top; y <= bottom; ++y)
    for (int x = left; x <= right; ++x) {
      const float px = float(x) - a.x, py = float(y) - a.y;
      const float t = std::clamp((px * dx + py * dy) / square, 0.0f, 1.0f);
      const float distance = std::hypot(px - t * dx, py - t * dy);
      float& pixel = ink[std::size_t(y * side + x)];
      pixel = std::max(pixel, std::clamp(radius + .5f - distance, 0.0f, 1.0f));
    }
}

/// The Catmull-Rom spline between b and c.
point spline(point a, point b, point c, point d, float t) {
  const auto mix = [t](float p, float q, float r, float s) {
    return q + .5f * t * (r - p + t * (2 * p - 5 * q + 4 * r - s + t * (3 * (q - r) + s - p)));
  };
  return {mix(a.x, b.x, c.x, d.x), mix(a.y, b.y, c.y, d.y)};
}

void draw_stroke(canvas& ink, const stroke& s, const hand& pen, float radius) {
  std::vector<point> p;
  for (const point& q : s.points) p.push_back(pen.put(q));
  const int pieces = s.curved ? 5 : 1;
  for (std::size_t i = 0; i + 1 < p.size(); ++i) {
    const point before = p[i > 0 ? i - 1 : 0], after = p[std::min(i + 2, p.size() - 1)];
    point last = p[i];
    for (int k = 1; k <= pieces; ++k) {
      const float t = float(k) / float(pieces);
      const point next = s.curved ? spline(before, p[i], p[i + 1], after, t) : p[i + 1];
      draw_segment(ink, last, next, radius);
      last = next;
    }
  }
}

void draw_digit(int digit, random_numbers random, std::uint8_t* image) {
  const auto& ways = styles(digit);
  const glyph& strokes = ways[random.below(ways.size())];
  const hand pen{random};
  const float radius = random.uniform(.6f, 1.6f), blackness = random.uniform(150, 255), grain = random.uniform(4, 30);
  canvas ink{};
  for (const stroke& s : strokes) draw_stroke(ink, s, pen, radius);
  for (std::size_t i = 0; i < ink.size(); ++i)
    image[i] = static_cast<std::uint8_t>(std::clamp(ink[i] * blackness + grain * random.normal(), 0.0f, 255.0f));
}

}  // namespace

dataset generate(std::size_t count, std::uint64_t seed) {
  dataset result{std::vector<std::uint8_t>(count * pixels), std::vector<std::uint8_t>(count)};
  random_numbers seeds{seed};
  for (std::size_t i = 0; i < count; ++i) {
    random_numbers random{seeds.bits()};
    const int digit = static_cast<int>(random.below(classes));
    result.labels[i] = static_cast<std::uint8_t>(digit);
    draw_digit(digit, random, result.images.data() + i * pixels);
  }
  return result;
}

split generate_split(std::size_t train, std::size_t test, std::uint64_t seed) {
  return {generate(train, seed), generate(test, ~seed)};
}

}  // namespace digits

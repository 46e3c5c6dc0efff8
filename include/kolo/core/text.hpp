// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds sentences of words and numbers with one function: speed does not matter there, and code size does.
#pragma once

#include <kolo/config.hpp>

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

namespace kolo::inline KOLO_ABI::detail::core {

/// Text, or a whole number. Refers to text that must outlive it.
struct word {
  const char* text = nullptr;     ///< null: a number
  unsigned long long number = 0;  ///< else the length of the text
  bool is_negative = false;

  word(const char* t) : word{std::string_view{t}} {}                              // NOLINT: text is text
  word(const std::string& t) : text{t.data()}, number{t.size()} {}                // NOLINT
  word(std::string_view t) : text{t.data() ? t.data() : ""}, number{t.size()} {}  // NOLINT
  word(std::signed_integral auto n)                                               // NOLINT
      : number{n < 0 ? 0ull - static_cast<unsigned long long>(n) : static_cast<unsigned long long>(n)},
        is_negative{n < 0} {}
  word(std::unsigned_integral auto n) : number{n} {}  // NOLINT
};

[[gnu::cold, gnu::noinline]] inline void append_words(std::string& to, std::initializer_list<word> words) {
  for (const word& w : words) {
    char digits[24];
    char *const end = digits + sizeof digits, *begin = end;
    for (auto rest = w.number; !w.text && (begin == end || rest > 0); rest /= 10) *--begin = char('0' + rest % 10);
    if (w.is_negative) *--begin = '-';
    if (w.text) to.append(w.text, std::size_t(w.number));
    else to.append(begin, std::size_t(end - begin));
  }
}
[[gnu::cold, gnu::noinline]] inline std::string text_of(std::initializer_list<word> words) {
  std::string text;
  append_words(text, words);
  return text;
}
/// "1 rank", "2 ranks".
[[gnu::cold, gnu::noinline]] inline std::string ranks_text(long long n) {
  return text_of({n, n == 1 ? " rank" : " ranks"});
}

}  // namespace kolo::inline KOLO_ABI::detail::core

namespace kolo::inline KOLO_ABI {
/// Writes the `message()` of a type that asks for it to a stream of the standard library, whose header is not included.
template <class Stream, class X>
  requires requires(Stream& out, const X& x, const std::string& text) {
    typename Stream::char_type;
    typename X::printed_by_message;
    out.write(text.data(), 1);
  }
Stream& operator<<(Stream& out, const X& x) { return out << x.message(), out; }
}  // namespace kolo::inline KOLO_ABI
